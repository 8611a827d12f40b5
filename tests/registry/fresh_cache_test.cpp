#include <stdlib.h>

#include <filesystem>

#include "compiler/artifact_cache.hpp"
#include "core/disk_store.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

/// Every run of this binary starts with an empty cache of its own: nothing that an earlier build compiled can make a
/// test pass.
class FreshCache : public ::testing::Environment {
 public:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-registry-tests-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    ASSERT_EQ(::setenv("KILN_CACHE_DIR", pattern.c_str(), 1), 0);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

 private:
  std::filesystem::path directory_;
};

const auto* const kFreshCache = ::testing::AddGlobalTestEnvironment(new FreshCache);

TEST(FreshCacheTest, ProcessCacheLivesInTheTemporaryDirectory) {
  ASSERT_NE(kFreshCache, nullptr);
  EXPECT_THAT(ArtifactCache::process().disk().root().string(), HasSubstr("kiln-registry-tests-"));
  EXPECT_EQ(ArtifactCache::process().disk().state(), DiskStore::State::usable);
}

}  // namespace
}  // namespace kiln::test
