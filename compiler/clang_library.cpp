#include "compiler/clang_library.hpp"

#include <gnu/libc-version.h>

#include <chrono>
#include <cstring>
#include <mutex>

#include "compiler/stub.hpp"
#include "core/errors.hpp"
#include "core/plugin.hpp"

namespace kiln {
namespace {

constexpr const char* kLibrary = "libkiln-clang.so";

class ClangCompiler final : public Compiler {
 public:
  // KILN_LLVM_PIPELINE is a hash of llvm_compiler.cpp: whatever changes there may change the code it makes. The C
  // library's version stands for the vector functions that objects may call.
  ClangCompiler()
      : identity_(std::string("clang " KILN_LLVM_VERSION " " KILN_LLVM_PIPELINE " glibc ") + gnu_get_libc_version()) {}

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
    const std::string stub_text = stub(request);
    const std::vector<KernelSource> sources = transitive_sources(request.source);
    ClangJob job;
    job.stub = stub_text;
    job.sources = &sources;
    job.entry = kCpuEntry;
    job.tune_cpu = request.target.arch;
    job.features = request.target.features;
    job.line_info = request.line_info;
    job.output = output;
    ClangResult result;
    function()(job, result);
    if (!result.ok) throw CompileError(request.op, request.configuration, result.log);
    return std::move(result.bytes);
  }

  ClangCompileFunction function() {
    // A failed open leaves the flag unset, so the next compile tries again.
    std::call_once(opened_, [this] {
      function_ = reinterpret_cast<ClangCompileFunction>(open_plugin_symbol(kLibrary, kClangCompileFunctionName));
    });
    return function_;
  }

  const std::string identity_;
  std::once_flag opened_;
  ClangCompileFunction function_ = nullptr;
};

}  // namespace

std::unique_ptr<Compiler> make_clang_compiler() {
  return std::make_unique<ClangCompiler>();
}

std::string clang_problem() {
  if (!find_plugin(kLibrary).empty()) return {};
  return std::string(kLibrary) +
         " is neither beside this binary nor in ../lib from there; build Kiln with -DKILN_CPU=ON and install it with "
         "libkiln.so";
}

}  // namespace kiln
