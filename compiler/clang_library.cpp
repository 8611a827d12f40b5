#include "compiler/clang_library.hpp"

#include <gnu/libc-version.h>

#include <chrono>
#include <cstring>

#include "compiler/compile_thread.hpp"
#include "compiler/precompiled_header.hpp"
#include "compiler/statement_length.hpp"
#include "compiler/stub.hpp"
#include "core/errors.hpp"
#include "core/plugin.hpp"

namespace kiln {
namespace {

constexpr const char* kLibrary = "libkiln-clang.so";

// A hash of the llvm_*.cpp stands for the pipeline: whatever changes there may change the code
// it makes.
constexpr const char* kIdentity = "clang " KILN_LLVM_VERSION " " KILN_LLVM_PIPELINE;

/// A ClangJob with what it points to.
struct OwnedJob {
  std::string stub;
  std::vector<KernelSource> sources;
  Target target;
  ClangJob job;
};

/// Opens libkiln-clang.so at the first call. DeviceError when it cannot; the next call tries again.
ClangResult run_clang(const std::string& op, const std::string& configuration, const OwnedJob& owned) {
  static const auto function =
      reinterpret_cast<ClangCompileFunction>(open_plugin_symbol(kLibrary, kClangCompileFunctionName));
  return run_on_compile_thread(op, configuration, [owned](const CompileBounds& bounds) {
    ClangJob job = owned.job;
    job.stub = owned.stub;
    job.sources = &owned.sources;
    job.tune_cpu = owned.target.arch;
    job.features = owned.target.features;
    ClangResult result;
    function(job, bounds, result);
    return result;
  });
}

class ClangCompiler final : public Compiler {
 public:
  // The C library's version stands for the vector functions that objects may call.
  ClangCompiler() : identity_(std::string(kIdentity) + " glibc " + gnu_get_libc_version()), headers_(kIdentity) {}

  std::string_view identity() const noexcept override { return identity_; }

  Artifact compile(const CompileRequest& request) override {
    const auto start = std::chrono::steady_clock::now();
    const std::string bytes = run(request, ClangJob::Output::object);
    Artifact artifact;
    artifact.kind = ArtifactKind::object;
    artifact.target = request.target;
    artifact.entry = kCpuEntry;
    artifact.name = instance_name(request);
    artifact.code.resize(bytes.size());
    std::memcpy(artifact.code.data(), bytes.data(), bytes.size());
    artifact.compile_time_us =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
    return artifact;
  }

  std::string emit(const CompileRequest& request, EmitKind kind) override {
    if (kind == EmitKind::ptx)
      throw_value_error("the CPU compiler has no PTX; ask for llvm-ir or asm, or for a CUDA target");
    return run(request, kind == EmitKind::llvm_ir ? ClangJob::Output::llvm_ir : ClangJob::Output::assembly);
  }

 private:
  std::string run(const CompileRequest& request, ClangJob::Output output) {
    if (request.target.type != DeviceType::cpu)
      throw InternalError("the CPU compiler was asked for target " + to_string(request.target));
    check_statement_lengths(request);
    OwnedJob owned{stub(request), transitive_sources(request.source), request.target, {}};
    ClangJob& job = owned.job;
    job.entry = kCpuEntry;
    job.line_info = request.line_info;
    job.output = output;
    // Line tables would name the header's files in another way than plain reading does, and what the header knows of
    // device_assert is that it is inactive.
    const bool reads_text = request.line_info || request.debug;
    const PrecompiledHeader* header = reads_text ? nullptr : headers_.find(request.source, owned.sources);
    if (header != nullptr) {
      job.header_stub = header->stub;
      job.header = header->bytes;
    }
    ClangResult result = run_clang(request.op, request.configuration, owned);
    if (!result.ok) throw CompileError(request.op, request.configuration, result.log);
    return std::move(result.bytes);
  }

  const std::string identity_;
  PrecompiledHeaders headers_;
};

}  // namespace

std::unique_ptr<Compiler> make_clang_compiler() {
  return std::make_unique<ClangCompiler>();
}

void precompile_header(const std::string& root, const std::filesystem::path& output) {
  const std::vector<KernelSource> sources = transitive_sources(embedded_source(root));
  PrecompiledHeader header{precompiled_header_key(kIdentity, sources), precompiled_header_stub(root), {}};
  const std::string configuration = "precompiled header";
  OwnedJob owned{header.stub, sources, {}, {}};
  owned.job.output = ClangJob::Output::precompiled_header;
  ClangResult result = run_clang(root, configuration, owned);
  if (!result.ok) throw CompileError(root, configuration, result.log);
  header.bytes = std::move(result.bytes);
  write_precompiled_header(output, header);
}

std::string clang_problem() {
  if (!find_plugin(kLibrary).empty()) return {};
  return std::string(kLibrary) +
         " is neither beside this binary nor in ../lib from there; build Kiln with -DKILN_CPU=ON and install it with "
         "libkiln.so";
}

}  // namespace kiln
