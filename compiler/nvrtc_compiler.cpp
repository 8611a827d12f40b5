#include "compiler/nvrtc_compiler.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nvrtc.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "compiler/box_loads.hpp"
#include "compiler/compile_thread.hpp"
#include "compiler/library_build_id.hpp"
#include "compiler/statement_length.hpp"
#include "compiler/stub.hpp"
#include "core/environment.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

constexpr const char* kInstallHint =
    "install NVRTC of CUDA 12.0 or newer (a CUDA toolkit, or pip's nvidia-cuda-nvrtc), or set KILN_NVRTC_PATH to its "
    "libnvrtc.so or to the folder that "
    "holds it";
constexpr const char* kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

// Contraction into fma stays on, as in nvcc: kernels are written for it. The disk look-ups of quoted includes are off,
// so that a file which happens to lie in the working directory cannot become part of a kernel.
constexpr const char* kFixedOptions[] = {"--std=c++20", "--device-as-default-execution-space", "--fmad=true",
                                         "--no-source-include", "-DKILN_TARGET_CUDA=1"};

/// The functions of libnvrtc that are used, or why there are none.
struct Nvrtc {
  decltype(&::nvrtcGetErrorString) get_error_string = nullptr;
  decltype(&::nvrtcVersion) get_version = nullptr;
  decltype(&::nvrtcGetNumSupportedArchs) get_num_supported_archs = nullptr;
  decltype(&::nvrtcGetSupportedArchs) get_supported_archs = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&::nvrtcAddNameExpression) add_name_expression = nullptr;
  decltype(&::nvrtcCompileProgram) compile_program = nullptr;
  decltype(&::nvrtcGetLoweredName) get_lowered_name = nullptr;
  decltype(&::nvrtcGetProgramLogSize) get_program_log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) get_program_log = nullptr;
  decltype(&::nvrtcGetCUBINSize) get_cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) get_cubin = nullptr;
  decltype(&::nvrtcGetPTXSize) get_ptx_size = nullptr;
  decltype(&::nvrtcGetPTX) get_ptx = nullptr;
  /// Of CUDA 12.8 and newer. Declared here, since the headers Kiln is built with may be older.
  nvrtcResult (*set_flow_callback)(nvrtcProgram, int (*)(void*, void*), void*) = nullptr;

  std::string problem;
  int version = 0;
  std::vector<int> architectures;
  std::vector<std::string> options;
  std::string identity;
};

template <typename Function>
void resolve(Nvrtc& nvrtc, void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr && nvrtc.problem.empty())
    nvrtc.problem = fmt::format("libnvrtc has no {}: {}", symbol, kInstallHint);
}

/// Opens the first of the candidates that loads; otherwise null, with the loader's first complaint in `problem`.
void* open_library(std::string& problem) {
  std::vector<std::string> candidates;
  if (const auto path = environment("KILN_NVRTC_PATH")) {
    std::error_code error;
    if (std::filesystem::is_directory(*path, error)) {
      for (const char* soname : kSonames) candidates.push_back((std::filesystem::path(*path) / soname).string());
    } else {
      candidates.push_back(*path);
    }
  } else {
    candidates.assign(std::begin(kSonames), std::end(kSonames));
    for (const char* soname : kSonames) candidates.push_back(std::string("/usr/local/cuda/lib64/") + soname);
  }
  std::string complaint;
  for (const std::string& candidate : candidates) {
    if (void* library = dlopen(candidate.c_str(), RTLD_LAZY | RTLD_LOCAL)) return library;
    const char* error = dlerror();
    if (complaint.empty() && error != nullptr) complaint = error;
  }
  problem = fmt::format("libnvrtc cannot be opened ({}): {}", complaint, kInstallHint);
  return nullptr;
}

/// NVRTC asks the loader for its builtins by soname on the first compile, and a library that was opened by path is in
/// none of the loader's folders.
void open_builtins(const Nvrtc& nvrtc) {
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(nvrtc.compile_program), &library) == 0 || library.dli_fname == nullptr)
    return;
  const std::filesystem::path folder = std::filesystem::path(library.dli_fname).parent_path();
  const std::string soname = fmt::format("libnvrtc-builtins.so.{}.{}", nvrtc.version / 1000, nvrtc.version % 1000 / 10);
  dlopen((folder / soname).c_str(), RTLD_LAZY | RTLD_LOCAL);
}

Nvrtc load_nvrtc() {
  Nvrtc nvrtc;
  void* library = open_library(nvrtc.problem);
  if (library == nullptr) return nvrtc;
  resolve(nvrtc, library, "nvrtcGetErrorString", nvrtc.get_error_string);
  resolve(nvrtc, library, "nvrtcVersion", nvrtc.get_version);
  resolve(nvrtc, library, "nvrtcGetNumSupportedArchs", nvrtc.get_num_supported_archs);
  resolve(nvrtc, library, "nvrtcGetSupportedArchs", nvrtc.get_supported_archs);
  resolve(nvrtc, library, "nvrtcCreateProgram", nvrtc.create_program);
  resolve(nvrtc, library, "nvrtcDestroyProgram", nvrtc.destroy_program);
  resolve(nvrtc, library, "nvrtcAddNameExpression", nvrtc.add_name_expression);
  resolve(nvrtc, library, "nvrtcCompileProgram", nvrtc.compile_program);
  resolve(nvrtc, library, "nvrtcGetLoweredName", nvrtc.get_lowered_name);
  resolve(nvrtc, library, "nvrtcGetProgramLogSize", nvrtc.get_program_log_size);
  resolve(nvrtc, library, "nvrtcGetProgramLog", nvrtc.get_program_log);
  resolve(nvrtc, library, "nvrtcGetCUBINSize", nvrtc.get_cubin_size);
  resolve(nvrtc, library, "nvrtcGetCUBIN", nvrtc.get_cubin);
  resolve(nvrtc, library, "nvrtcGetPTXSize", nvrtc.get_ptx_size);
  resolve(nvrtc, library, "nvrtcGetPTX", nvrtc.get_ptx);
  if (!nvrtc.problem.empty()) return nvrtc;
  nvrtc.set_flow_callback = reinterpret_cast<decltype(nvrtc.set_flow_callback)>(dlsym(library, "nvrtcSetFlowCallback"));

  int major = 0, minor = 0, count = 0;
  nvrtc.get_version(&major, &minor);
  if (major < 12) {
    nvrtc.problem = fmt::format("libnvrtc is of CUDA {}.{}, which lacks C++20: {}", major, minor, kInstallHint);
    return nvrtc;
  }
  nvrtc.version = major * 1000 + minor * 10;
  nvrtc.get_num_supported_archs(&count);
  nvrtc.architectures.resize(static_cast<std::size_t>(count));
  nvrtc.get_supported_archs(nvrtc.architectures.data());
  open_builtins(nvrtc);

  nvrtc.options.assign(std::begin(kFixedOptions), std::end(kFixedOptions));
  // Leaves out declarations of textures and device-side CUDA runtime, which tl does without: a shorter front end.
  if (nvrtc.version >= 12040) nvrtc.options.emplace_back("--minimal");
  // Otherwise a compile may be answered from NVRTC's own cache with an empty log; Kiln has its own cache in front.
  if (nvrtc.version >= 12090) nvrtc.options.emplace_back("--no-cache");
  nvrtc.identity = fmt::format("nvrtc {}.{} build {} {}", major, minor,
                               library_build_id(reinterpret_cast<const void*>(nvrtc.compile_program)),
                               fmt::join(nvrtc.options, " "));
  return nvrtc;
}

/// Loaded once, never closed: artifacts may be compiled while statics are being destroyed.
const Nvrtc& nvrtc_library() {
  static const Nvrtc* const library = new Nvrtc(load_nvrtc());
  return *library;
}

const Nvrtc& usable_nvrtc() {
  const Nvrtc& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) throw DeviceError("loading libnvrtc", 0, nvrtc.problem);
  return nvrtc;
}

void check(const Nvrtc& nvrtc, nvrtcResult result, const char* call) {
  if (result != NVRTC_SUCCESS) throw DeviceError(call, static_cast<int>(result), nvrtc.get_error_string(result));
}

/// "sm_90a" and its number, 90. UsageError(value) for a target that is not CUDA's, UsageError(not_implemented) for an
/// architecture that this NVRTC lacks.
void require_architecture(const Nvrtc& nvrtc, const Target& target) {
  int number = 0;
  const char* end = target.arch.data() + target.arch.size();
  const bool spelled = target.type == DeviceType::cuda && target.arch.starts_with("sm_") &&
                       std::from_chars(target.arch.data() + 3, end, number).ec == std::errc();
  if (!spelled)
    throw_value_error(fmt::format("the CUDA compiler was asked for target '{}'; it serves targets such as cuda:sm_90a",
                                  to_string(target)));
  if (std::find(nvrtc.architectures.begin(), nvrtc.architectures.end(), number) != nvrtc.architectures.end()) return;
  throw_not_implemented(fmt::format(
      "NVRTC {}.{} does not compile for {}; it serves sm_{}. For a newer GPU set KILN_NVRTC_PATH to a newer libnvrtc, "
      "for an older one to an older",
      nvrtc.version / 1000, nvrtc.version % 1000 / 10, target.arch, fmt::join(nvrtc.architectures, ", sm_")));
}

bool wants_ptx(const Target& target) {
  return target.features == "ptx";
}

/// The file's text with its quoted includes spelled as `sources` names those files: NVRTC knows a header by the very
/// text of the include, and does not look beside the file that has it.
std::string with_full_paths(const KernelSource& file, const std::vector<KernelSource>& sources) {
  std::string text = file.text;
  for (const std::string& path : quoted_includes(file.text)) {
    const std::string full =
        (std::filesystem::path(file.path).parent_path() / path).lexically_normal().generic_string();
    const auto is_it = [&](const KernelSource& source) { return source.path == full; };
    if (full == path || std::none_of(sources.begin(), sources.end(), is_it)) continue;
    const std::string quoted = fmt::format("\"{}\"", path);
    for (std::size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted, at + 1)) {
      const std::size_t line = text.rfind('\n', at) + 1;  // 0 on the first line
      if (text[text.find_first_not_of(" \t", line)] == '#') text.replace(at + 1, path.size(), full);
    }
  }
  return text;
}

/// What NVRTC asks between its phases: whether it should stop. Its front end, templates included, does not ask.
int is_abandoned(void* bounds, void* /*unused*/) {
  return static_cast<const CompileBounds*>(bounds)->is_abandoned ? 1 : 0;
}

/// One nvrtcProgram, compiled.
class Program {
 public:
  /// CompileError with the log, DeviceError when NVRTC fails for a reason that is not the source's.
  Program(const Nvrtc& nvrtc, const CompileRequest& request, const CompileBounds& bounds,
          const std::vector<std::string>& extra_options)
      : nvrtc_(nvrtc), name_(entry_name(request)) {
    const std::string text = stub(request);
    const std::vector<KernelSource> sources = transitive_sources(request.source);
    std::vector<std::string> texts;
    for (const KernelSource& source : sources) texts.push_back(with_full_paths(source, sources));
    std::vector<const char*> header_texts, header_names;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      header_texts.push_back(texts[i].c_str());
      header_names.push_back(sources[i].path.c_str());
    }
    check(nvrtc,
          nvrtc.create_program(&program_, text.c_str(), "kiln_stub.cu", static_cast<int>(sources.size()),
                               header_texts.data(), header_names.data()),
          "nvrtcCreateProgram");
    try {
      if (nvrtc.set_flow_callback != nullptr)
        check(nvrtc, nvrtc.set_flow_callback(program_, is_abandoned, const_cast<CompileBounds*>(&bounds)),
              "nvrtcSetFlowCallback");
      compile(request, extra_options);
    } catch (...) {
      nvrtc_.destroy_program(&program_);
      throw;
    }
  }
  ~Program() { nvrtc_.destroy_program(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const std::string& lowered_name() const noexcept { return lowered_name_; }
  const std::string& log() const noexcept { return log_; }

  std::vector<std::byte> cubin() const { return bytes(nvrtc_.get_cubin_size, nvrtc_.get_cubin, "nvrtcGetCUBIN"); }
  std::vector<std::byte> ptx() const { return bytes(nvrtc_.get_ptx_size, nvrtc_.get_ptx, "nvrtcGetPTX"); }

 private:
  void compile(const CompileRequest& request, const std::vector<std::string>& extra_options) {
    check(nvrtc_, nvrtc_.add_name_expression(program_, name_.c_str()), "nvrtcAddNameExpression");
    std::vector<std::string> options = nvrtc_.options;
    const std::string_view number = std::string_view(request.target.arch).substr(3);
    options.push_back(fmt::format("--gpu-architecture={}_{}", wants_ptx(request.target) ? "compute" : "sm", number));
    options.push_back(fmt::format("-DKILN_NUM_WARPS={}", request.num_warps));
    options.push_back(fmt::format("-DKILN_VECTOR_WIDTH={}", resolved_vector_width(request)));
    if (request.copy_warps != 0) options.push_back(fmt::format("-DKILN_COPY_WARPS={}", request.copy_warps));
    if (request.overlaps_previous) options.emplace_back("-DKILN_OVERLAPS_PREVIOUS=1");
    if (request.line_info) options.emplace_back("--generate-line-info");
    options.insert(options.end(), extra_options.begin(), extra_options.end());
    std::vector<const char*> option_pointers;
    for (const std::string& option : options) option_pointers.push_back(option.c_str());

    const nvrtcResult result =
        nvrtc_.compile_program(program_, static_cast<int>(option_pointers.size()), option_pointers.data());
    log_ = read_log();
    // ptxas and the front end share a log; a failure that leaves none (memory, a broken installation) is not the
    // kernel's.
    if (result != NVRTC_SUCCESS && !log_.empty()) throw CompileError(request.op, request.configuration, log_);
    check(nvrtc_, result, "nvrtcCompileProgram");

    const char* lowered = nullptr;
    const nvrtcResult lowering = nvrtc_.get_lowered_name(program_, name_.c_str(), &lowered);
    if (lowering != NVRTC_SUCCESS || lowered == nullptr)
      throw CompileError(
          request.op, request.configuration,
          fmt::format("'{}' names no __global__ function ({})", name_, nvrtc_.get_error_string(lowering)));
    lowered_name_ = lowered;
  }

  std::string read_log() const {
    std::size_t size = 0;
    if (nvrtc_.get_program_log_size(program_, &size) != NVRTC_SUCCESS || size <= 1) return {};
    std::string log(size, '\0');
    if (nvrtc_.get_program_log(program_, log.data()) != NVRTC_SUCCESS) return {};
    log.resize(size - 1);
    while (!log.empty() && (log.back() == '\n' || log.back() == '\0')) log.pop_back();
    return log;
  }

  template <typename GetSize, typename Get>
  std::vector<std::byte> bytes(GetSize get_size, Get get, const char* call) const {
    std::size_t size = 0;
    check(nvrtc_, get_size(program_, &size), call);
    std::vector<std::byte> code(size);
    check(nvrtc_, get(program_, reinterpret_cast<char*>(code.data())), call);
    return code;
  }

  const Nvrtc& nvrtc_;
  std::string name_;
  nvrtcProgram program_ = nullptr;
  std::string lowered_name_;
  std::string log_;
};

/// Whether code has an array in shared memory whose size it leaves open, which is what a launch states one for: tl's
/// pipelines, and `extern __shared__` of kernels in plain CUDA C++. Those that no kernel uses are not in the PTX. The
/// cubin says it too, in a form that NVIDIA does not document.
bool declares_dynamic_shared(std::string_view ptx) {
  return ptx.find(".extern .shared") != std::string_view::npos;
}

/// What a comment `statement` in the PTX of kernel `entry` says, each time that it stands there. A file's other kernels
/// are in the PTX too; of functions, which stand by themselves there, any may be called.
std::vector<std::int32_t> stated_bytes(std::string_view ptx, std::string_view entry, std::string_view statement) {
  constexpr std::string_view kEntry = ".entry ", kFunction = ".func ";
  std::vector<std::int32_t> stated;
  for (std::size_t at = ptx.find(statement); at != std::string_view::npos; at = ptx.find(statement, at + 1)) {
    const std::string_view before = ptx.substr(0, at);
    const std::size_t kernel = before.rfind(kEntry), function = before.rfind(kFunction);
    const bool is_in_kernel =
        kernel != std::string_view::npos && (function == std::string_view::npos || function < kernel);
    if (is_in_kernel && !before.substr(kernel + kEntry.size()).starts_with(std::string(entry) + '(')) continue;
    std::from_chars(ptx.data() + at + statement.size(), ptx.data() + ptx.size(), stated.emplace_back());
  }
  return stated;
}

/// How much dynamic shared memory kernel `entry` needs: its pipelines, which take turns in one place, as much as one of
/// them says (compiler/tl/cuda/pipeline_steps.hpp), and behind these an operand that it could not declare
/// (compiler/tl/cuda/dynamic_shared.hpp).
std::int32_t dynamic_shared_bytes(const CompileRequest& request, std::string_view ptx, std::string_view entry) {
  constexpr std::int32_t kAlignment = 1024;
  std::int32_t pipelines = 0;
  for (const std::int32_t bytes : stated_bytes(ptx, entry, "// kiln.dynamic_shared_bytes "))
    pipelines = std::max(pipelines, bytes);
  const std::vector<std::int32_t> operands = stated_bytes(ptx, entry, "// kiln.dynamic_operand_bytes ");
  if (operands.empty()) return pipelines;
  if (operands.size() > 1)
    throw CompileError(request.op, request.configuration,
                       "tl::dot_operand: more than one operand is larger than 48 KiB; a kernel has room for one, once");
  return (pipelines + kAlignment - 1) / kAlignment * kAlignment + operands.front();
}

struct Compiled {
  std::string entry;            ///< the lowered name
  std::vector<std::byte> code;  ///< PTX ends with a zero, which the driver wants
  bool takes_dynamic_shared = false;
  std::int32_t dynamic_shared_bytes = 0;
  std::vector<BoxLoad> box_loads;
  std::string log;
};

enum class Form { target, ptx };

/// Errors as Program's, and those of run_on_compile_thread.
Compiled compile_program(const Nvrtc& nvrtc, const CompileRequest& request, Form form,
                         const std::vector<std::string>& extra_options = {}) {
  require_architecture(nvrtc, request.target);
  check_statement_lengths(request);
  return run_on_compile_thread(request.op, request.configuration,
                               [&nvrtc, request, form, extra_options](const CompileBounds& bounds) {
                                 const Program program(nvrtc, request, bounds, extra_options);
                                 const bool is_ptx = form == Form::ptx || wants_ptx(request.target);
                                 std::vector<std::byte> ptx = program.ptx();
                                 Compiled compiled;
                                 compiled.entry = program.lowered_name();
                                 compiled.log = program.log();
                                 const std::string_view text(reinterpret_cast<const char*>(ptx.data()), ptx.size());
                                 compiled.takes_dynamic_shared = declares_dynamic_shared(text);
                                 compiled.dynamic_shared_bytes = dynamic_shared_bytes(request, text, compiled.entry);
                                 compiled.box_loads = box_loads(text, compiled.entry);
                                 compiled.code = is_ptx ? std::move(ptx) : program.cubin();
                                 return compiled;
                               });
}

std::string text_of(std::span<const std::byte> ptx) {
  std::string text(reinterpret_cast<const char*>(ptx.data()), ptx.size());
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

class NvrtcCompiler final : public Compiler {
 public:
  explicit NvrtcCompiler(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {}

  std::string_view identity() const noexcept override { return nvrtc_.identity; }

  Artifact compile(const CompileRequest& request) override {
    const auto start = std::chrono::steady_clock::now();
    Compiled compiled = compile_program(nvrtc_, request, Form::target);
    Artifact artifact;
    artifact.kind = wants_ptx(request.target) ? ArtifactKind::ptx : ArtifactKind::cubin;
    artifact.target = request.target;
    artifact.entry = std::move(compiled.entry);
    artifact.name = instance_name(request);
    artifact.takes_dynamic_shared = compiled.takes_dynamic_shared;
    artifact.dynamic_shared_bytes = compiled.dynamic_shared_bytes;
    artifact.box_loads = std::move(compiled.box_loads);
    artifact.code = std::move(compiled.code);
    artifact.compile_time_us =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
    return artifact;
  }

  std::string emit(const CompileRequest& request, EmitKind kind) override {
    if (kind != EmitKind::ptx)
      throw_value_error(
          "the CUDA compiler shows PTX only; LLVM IR and assembly are forms of the CPU target (SASS needs a "
          "disassembler on the cubin)");
    return text_of(compile_program(nvrtc_, request, Form::ptx).code);
  }

 private:
  const Nvrtc& nvrtc_;
};

/// The number that stands before `label` in ptxas's report, or 0.
std::int32_t number_before(std::string_view report, std::string_view label) {
  const std::size_t end = report.find(label);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && report[begin - 1] >= '0' && report[begin - 1] <= '9') --begin;
  std::int32_t number = 0;
  std::from_chars(report.data() + begin, report.data() + end, number);
  return number;
}

}  // namespace

std::unique_ptr<Compiler> make_nvrtc_compiler() {
  return std::make_unique<NvrtcCompiler>(usable_nvrtc());
}

std::string nvrtc_problem() {
  return nvrtc_library().problem;
}

int nvrtc_version() {
  return nvrtc_library().version;
}

PtxasReport ptxas_report(const CompileRequest& request, bool names_lines) {
  CompileRequest machine_code = request;
  machine_code.target.features.clear();
  std::vector<std::string> options{"--ptxas-options=-v"};
  if (names_lines) options.emplace_back("-lineinfo");
  const Compiled compiled = [&] {
    try {
      return compile_program(usable_nvrtc(), machine_code, Form::ptx, options);
    } catch (const CompileError&) {
      // With -v ptxas says how much of everything a kernel takes, and not that it is too much.
      compile_program(usable_nvrtc(), machine_code, Form::ptx);
      throw;
    }
  }();
  const std::string& log = compiled.log;
  PtxasReport report;
  report.ptx = text_of(compiled.code);
  // Warnings above it speak of registers too.
  report.registers = number_before(std::string_view(log).substr(std::min(log.find("Used "), log.size())), " registers");
  report.static_shared_bytes = number_before(log, " bytes smem");
  report.stack_bytes = number_before(log, " bytes stack frame");
  report.spill_store_bytes = number_before(log, " bytes spill stores");
  report.spill_load_bytes = number_before(log, " bytes spill loads");
  report.dynamic_shared_bytes = compiled.dynamic_shared_bytes;
  report.serializes_products = log.find("wgmma.mma_async instructions are serialized") != std::string::npos;
  return report;
}

}  // namespace kiln
