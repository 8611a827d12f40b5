#include "compiler/kernel_source.hpp"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/errors.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

std::vector<std::string> paths(const std::vector<KernelSource>& sources) {
  std::vector<std::string> result;
  for (const KernelSource& source : sources) result.push_back(source.path);
  return result;
}

/// A fresh folder that KILN_SOURCE_DIR points at while this lives.
class SourceTree {
 public:
  SourceTree() {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-sources-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    root_ = name;
    setenv("KILN_SOURCE_DIR", name.c_str(), 1);
  }
  ~SourceTree() {
    unsetenv("KILN_SOURCE_DIR");
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  SourceTree(const SourceTree&) = delete;
  SourceTree& operator=(const SourceTree&) = delete;
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

 private:
  std::filesystem::path root_;
};

TEST(KernelSource, EmbedsTheTileLanguageAndTheKernels) {
  const std::vector<std::string> all = embedded_paths();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_THAT(all, Contains("kiln/tl.hpp"));
  EXPECT_THAT(all, Contains("compiler/tl/tl.hpp"));
  EXPECT_THAT(all, Contains("ops/elementwise/iteration.hpp"));
  for (const std::string& path : all) {
    EXPECT_FALSE(path.ends_with(".cpp")) << path;
    const KernelSource source = embedded_source(path);
    EXPECT_EQ(source.path, path);
    EXPECT_FALSE(source.text.empty()) << path;
  }
}

TEST(KernelSource, EmbeddedTextIsTheFilesText) {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "../../ops/elementwise/iteration.hpp");
  ASSERT_TRUE(file) << "this test reads the source tree it was built from";
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(embedded_source("ops/elementwise/iteration.hpp").text, text);
}

TEST(KernelSource, AnUnknownHeaderIsOurFault) {
  EXPECT_THROW(embedded_source("compiler/tl/no_such.hpp"), InternalError);
  EXPECT_THROW(embedded_source("/etc/passwd"), InternalError);
  EXPECT_THROW(embedded_source("../CMakeLists.txt"), InternalError);
}

TEST(KernelSource, FollowsIncludesOfEveryForm) {
  const KernelSource kernel{"user/kernel.hpp",
                            "#include \"near.hpp\"\n"
                            "  #  include   <kiln/one.hpp>  // why\n"
                            "#include \"deep/../root.hpp\"\n"
                            "#if 0\n#include \"unused.hpp\"\n#endif\n"
                            "#include \"absent.hpp\"\n#include MACRO\n#includes\n#include",
                            {{"user/near.hpp", "#include \"sub/far.hpp\"\n#include \"kernel.hpp\"", {}},
                             {"user/sub/far.hpp", "#include \"near.hpp\"\n#include \"../near.hpp\"\n", {}},
                             {"kiln/one.hpp", "#include <kiln/one.hpp>", {}},
                             {"root.hpp", "", {}},
                             {"unused.hpp", "", {}},
                             {"never.hpp", "", {}}}};
  EXPECT_THAT(paths(transitive_sources(kernel)), ElementsAre("user/kernel.hpp", "user/near.hpp", "kiln/one.hpp",
                                                             "root.hpp", "unused.hpp", "user/sub/far.hpp"));
}

TEST(KernelSource, ReachesTheTileLanguageThroughItsAlias) {
  const std::vector<std::string> found = paths(transitive_sources({"k.hpp", "#include <kiln/tl.hpp>\n", {}}));
  EXPECT_THAT(found, Contains("kiln/tl.hpp"));
  EXPECT_THAT(found, Contains("compiler/tl/tl.hpp"));
  EXPECT_GT(found.size(), 4U);
}

TEST(KernelSource, SourceDirMustBeAFolder) {
  for (const char* path : {"/nowhere/at/all", "/dev/null"}) {
    setenv("KILN_SOURCE_DIR", path, 1);
    EXPECT_THROW(embedded_source("compiler/tl/tl.hpp"), UsageError) << path;
    EXPECT_THROW(transitive_sources({"k.hpp", "", {}}), UsageError) << path;
  }
  unsetenv("KILN_SOURCE_DIR");
}

TEST(KernelSource, SourceDirReplacesEmbeddedText) {
  const SourceTree tree;
  tree.write("compiler/tl/tl.hpp", "#include \"compiler/tl/new_file.hpp\"\n");
  tree.write("compiler/tl/new_file.hpp", "int from_tree;\n");
  EXPECT_EQ(embedded_source("compiler/tl/tl.hpp").text, "#include \"compiler/tl/new_file.hpp\"\n");
  EXPECT_THAT(paths(transitive_sources({"k.hpp", "#include <kiln/tl.hpp>\n", {}})),
              ElementsAre("k.hpp", "kiln/tl.hpp", "compiler/tl/tl.hpp", "compiler/tl/new_file.hpp"));
  tree.write("compiler/tl/new_file.hpp", "int edited;\n");
  EXPECT_EQ(embedded_source("compiler/tl/new_file.hpp").text, "int edited;\n") << "the tree is read live";
  EXPECT_FALSE(embedded_source("ops/elementwise/iteration.hpp").text.empty()) << "what the tree lacks stays embedded";
  EXPECT_THROW(embedded_source("../../../../etc/passwd"), InternalError);
}

}  // namespace
}  // namespace kiln::test
