#include "compiler/precompiled_header.hpp"

#include <fstream>

#include "compiler/clang_library.hpp"
#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "compiler/stub.hpp"
#include "core/errors.hpp"
#include "core/plugin.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

constexpr const char* kFamily = "ops/elementwise/kernel.hpp";
constexpr const char* kCopyKernel = R"(#include <kiln/tl.hpp>
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void copy_kernel(const T* x, T* out, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(out + offsets, tl::load(x + offsets, mask), mask);
}
)";

/// The identity that the build's own headers were made for: a compile's, without the C library's version.
std::string identity() {
  const std::string identity(compiler_for(DeviceType::cpu).identity());
  return identity.substr(0, identity.find(" glibc "));
}

KernelSource with_prefix(const std::string& prefix) {
  return {"copy.hpp", prefix + kCopyKernel, {}};
}

const PrecompiledHeader* find(PrecompiledHeaders& headers, const KernelSource& source) {
  return headers.find(source, transitive_sources(source));
}

TEST(PrecompiledHeader, TheBuildMadeOnePerFamilyAndOneOfTheTileLanguage) {
  PrecompiledHeaders headers(identity());
  const PrecompiledHeader* family = find(headers, embedded_source(kFamily));
  ASSERT_NE(family, nullptr);
  EXPECT_THAT(family->stub, HasSubstr(kFamily));
  EXPECT_FALSE(family->bytes.empty());
  EXPECT_EQ(find(headers, embedded_source(kFamily)), family) << "it is read once";

  const PrecompiledHeader* tile_language = find(headers, with_prefix(""));
  ASSERT_NE(tile_language, nullptr);
  EXPECT_THAT(tile_language->stub, HasSubstr("kiln/tl.hpp"));
}

TEST(PrecompiledHeader, FitsOnlyWhereTheTileLanguageComesFirst) {
  PrecompiledHeaders headers(identity());
  EXPECT_NE(find(headers, with_prefix("// A copy.\n\n#pragma once\n/* of\n everything */ ")), nullptr);
  EXPECT_EQ(find(headers, with_prefix("#define tile 1\n")), nullptr);
  EXPECT_EQ(find(headers, with_prefix("int x;\n")), nullptr);
  EXPECT_EQ(find(headers, with_prefix("#include \"ops/elementwise/functors.hpp\"\n")), nullptr);
  EXPECT_EQ(find(headers, with_prefix("// continued \\\n")), nullptr);
  EXPECT_EQ(find(headers, with_prefix("/* never closed ")), nullptr);
  EXPECT_EQ(find(headers, {"copy.hpp", "#include <kiln/tl.hpp> junk\n", {}}), nullptr);
  EXPECT_EQ(find(headers, {"copy.hpp", "", {}}), nullptr);
}

TEST(PrecompiledHeader, DoesNotFitOtherTextOrAnotherCompiler) {
  PrecompiledHeaders headers(identity());
  KernelSource family = embedded_source(kFamily);
  family.headers = {{"compiler/tl/tile.hpp", embedded_source("compiler/tl/tile.hpp").text + " ", {}}};
  EXPECT_EQ(find(headers, family), nullptr);
  KernelSource copy = with_prefix("");
  copy.headers = family.headers;
  EXPECT_EQ(find(headers, copy), nullptr);
  copy.headers.clear();
  EXPECT_NE(find(headers, copy), nullptr) << "a misfit says nothing about the next kernel";

  KernelSource own_text = embedded_source("ops/scan/kernel.hpp");  // one that starts with all of the tile language
  own_text.text += "\n";
  const PrecompiledHeader* fallback = find(headers, own_text);
  ASSERT_NE(fallback, nullptr);
  EXPECT_THAT(fallback->stub, HasSubstr("kiln/tl.hpp"));

  PrecompiledHeaders other("clang 19.0.0 of someone else");
  EXPECT_EQ(find(other, embedded_source(kFamily)), nullptr);
}

TEST(PrecompiledHeader, AFileThatIsMissingOrDamagedIsNone) {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "header.pch";
  EXPECT_EQ(read_precompiled_header(path, "kiln/tl.hpp"), std::nullopt);
  const PrecompiledHeader written{"key", precompiled_header_stub("kiln/tl.hpp"), std::string("one\ntwo\0three", 13)};
  write_precompiled_header(path, written);
  const auto found = read_precompiled_header(path, "kiln/tl.hpp");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->key, written.key);
  EXPECT_EQ(found->stub, written.stub);
  EXPECT_EQ(found->bytes, written.bytes);

  const auto size_bytes = std::filesystem::file_size(path);
  for (const auto kept_bytes : {size_bytes - 1, size_bytes / 2, std::uintmax_t{2}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path, kept_bytes);
    EXPECT_EQ(read_precompiled_header(path, "kiln/tl.hpp"), std::nullopt) << kept_bytes;
  }
  write_precompiled_header(path, written);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(-3, std::ios::end).put('!');
  EXPECT_EQ(read_precompiled_header(path, "kiln/tl.hpp"), std::nullopt);
  EXPECT_THROW(write_precompiled_header(folder.path() / "no" / "folder", written), SystemError);
}

TEST(PrecompiledHeader, IsTheSameEveryTimeItIsMade) {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "header.pch";
  precompile_header(kFamily, path);
  const auto made = read_precompiled_header(path, kFamily);
  ASSERT_TRUE(made.has_value());
  PrecompiledHeaders headers(identity());
  const PrecompiledHeader* built = find(headers, embedded_source(kFamily));
  ASSERT_NE(built, nullptr);
  EXPECT_EQ(made->key, built->key);
  EXPECT_TRUE(made->bytes == built->bytes);
}

/// Compiles through the library's own door, where the header can be chosen.
class FromAHeader : public testing::Test {
 protected:
  explicit FromAHeader(CompileRequest request = family_request())
      : request_(std::move(request)), stub_(stub(request_)), sources_(transitive_sources(request_.source)) {
    header_ = headers_.find(request_.source, sources_);
  }

  static CompileRequest family_request() {
    CompileRequest request;
    request.source = embedded_source(kFamily);
    request.kernel = "kiln::ops::elementwise_contiguous_kernel";
    request.template_arguments = {
        TypeName{"kiln::ops::Add"}, DType::f32, std::int64_t{128}, std::int64_t{0}, DType::f16, DType::f16, DType::f16};
    request.target = host_cpu_target();
    return request;
  }

  ClangResult compile(std::string_view header, ClangJob::Output output = ClangJob::Output::object) const {
    static const auto function =
        reinterpret_cast<ClangCompileFunction>(open_plugin_symbol("libkiln-clang.so", kClangCompileFunctionName));
    ClangJob job;
    job.stub = stub_;
    job.sources = &sources_;
    job.entry = kCpuEntry;
    job.tune_cpu = request_.target.arch;
    job.features = request_.target.features;
    job.header_stub = header_->stub;
    job.header = header;
    job.output = output;
    CompileBounds bounds;
    bounds.memory_bytes = std::int64_t{1} << 30;
    ClangResult result;
    function(job, bounds, result);
    return result;
  }

  CompileRequest request_;
  std::string stub_;
  std::vector<KernelSource> sources_;
  PrecompiledHeaders headers_{identity()};
  const PrecompiledHeader* header_ = nullptr;
};

TEST_F(FromAHeader, TheCodeIsThatOfTheText) {
  ASSERT_NE(header_, nullptr);
  for (const auto output : {ClangJob::Output::object, ClangJob::Output::assembly, ClangJob::Output::llvm_ir}) {
    const ClangResult plain = compile({}, output), from_header = compile(header_->bytes, output);
    ASSERT_TRUE(plain.ok) << plain.log;
    ASSERT_TRUE(from_header.ok) << from_header.log;
    EXPECT_TRUE(plain.bytes == from_header.bytes);
  }
  const auto artifact = compiler_for(DeviceType::cpu).compile(request_);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(artifact.code.data()), artifact.code.size()), compile({}).bytes);
}

TEST_F(FromAHeader, BytesThatClangRefusesAreIgnored) {
  ASSERT_NE(header_, nullptr);
  const ClangResult plain = compile({});
  for (const std::string& header : {std::string("junk"), std::string(4096, '\0'), header_->bytes.substr(0, 64)}) {
    const ClangResult result = compile(header);
    EXPECT_TRUE(result.ok) << result.log;
    EXPECT_EQ(result.log, "");
    EXPECT_TRUE(result.bytes == plain.bytes);
  }
  // Sound, but made from other text than the job holds.
  sources_.back().text += "\n";
  EXPECT_TRUE(compile(header_->bytes).bytes == plain.bytes);
}

TEST_F(FromAHeader, ErrorsReadAsThoseOfTheText) {
  ASSERT_NE(header_, nullptr);
  // A functor without apply: the error is inside the header.
  request_.template_arguments.front() = DType::f64;
  stub_ = stub(request_);
  const ClangResult plain = compile({}), from_header = compile(header_->bytes);
  EXPECT_FALSE(from_header.ok);
  EXPECT_THAT(from_header.log, HasSubstr("ops/elementwise/kernel.hpp:"));
  EXPECT_EQ(from_header.log, plain.log);
}

}  // namespace
}  // namespace kiln::test
