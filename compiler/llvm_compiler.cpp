// libkiln-clang.so: Clang's front end and LLVM's x86 back end, in process. What happens to a module between the two is
// llvm_pipeline.cpp's.
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <clang/AST/ASTContext.h>
#include <clang/Basic/DiagnosticOptions.h>
#include <clang/Basic/TargetInfo.h>
#include <clang/CodeGen/ModuleBuilder.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <clang/Parse/ParseAST.h>
#include <clang/Sema/Sema.h>
#include <clang/Serialization/ASTWriter.h>
#include <clang/Serialization/PCHContainerOperations.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Target/TargetMachine.h>

#include "compiler/clang_library.hpp"
#include "compiler/llvm_bounds.hpp"
#include "compiler/llvm_globals.hpp"
#include "compiler/llvm_pipeline.hpp"
#include "core/cpu_stack.hpp"

// No exception may cross LLVM's frames on the way to a caller, so this file reports through ClangResult and
// std::optional. The one exception is FatalError.
namespace kiln {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";
constexpr const char* kMainFile = "kiln_stub.cpp";
/// A precompiled header, and the main file it was made from; Clang compares the latter's text with what it remembers.
constexpr const char* kHeader = "/kiln_header.pch";
constexpr const char* kHeaderMainFile = "kiln_header_stub.cpp";
/// What every CPU that Kiln runs on has.
constexpr const char* kBaseCpu = "x86-64";

/// What LLVM's fatal error handler throws: without it LLVM would end the process. The interrupted compile leaks; the
/// process lives.
struct FatalError {
  std::string reason;
};

void throw_fatal_error(void* /*user_data*/, const char* reason, bool /*wants_crash_report*/) {
  throw FatalError{reason};
}

void initialize_llvm() {
  static std::once_flag flag;
  std::call_once(flag, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    llvm::install_fatal_error_handler(throw_fatal_error);
  });
}

/// Clang names files relative to the working directory "./ops/..."; people know them as "ops/...".
std::string without_dot_slash(const std::string& log) {
  std::string out;
  for (std::size_t i = 0; i < log.size(); ++i) {
    const bool starts_word = i == 0 || log[i - 1] == '\n' || log[i - 1] == ' ' || log[i - 1] == '\'';
    if (starts_word && log.compare(i, 2, "./") == 0) {
      ++i;
      continue;
    }
    out += log[i];
  }
  return out;
}

const char* main_file(const ClangJob& job) {
  return job.output == ClangJob::Output::precompiled_header ? kHeaderMainFile : kMainFile;
}

llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> file_system(const ClangJob& job) {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  files->setCurrentWorkingDirectory("/");
  const auto add = [&](llvm::StringRef path, llvm::StringRef text) {
    files->addFile(path, 0, llvm::MemoryBuffer::getMemBufferCopy(text, path));
  };
  add(main_file(job), job.stub);
  if (!job.header.empty()) {
    add(kHeaderMainFile, job.header_stub);
    files->addFile(kHeader, 0, llvm::MemoryBuffer::getMemBuffer(job.header, kHeader, false));
  }
  for (const KernelSource& source : *job.sources) add(source.path, source.text);
  return files;
}

/// The front end knows neither the CPU nor its features, which only set_target_attributes adds: one precompiled header
/// then serves every CPU, and what a kernel means does not depend on the machine.
std::vector<std::string> front_end_arguments(const ClangJob& job) {
  std::vector<std::string> arguments = {
      "-triple", kTriple, "-target-cpu", kBaseCpu, "-x", "c++", "-std=c++20", "-O3",
      // No file of the machine is looked at: what a kernel includes is in the job.
      "-nostdsysteminc", "-nobuiltininc", "-nostdinc++", "-I.",
      // Contraction would make results depend on how LLVM happened to combine a tile's operations.
      "-ffp-contract=off", "-fno-rtti", "-fgnuc-version=4.2.1", "-mrelocation-model", "pic", "-pic-level", "2",
      "-mframe-pointer=none", "-fno-threadsafe-statics",
      // Tiles are locals, whose accesses the optimiser tells apart without types: the marks would only cost time.
      "-relaxed-aliasing", "-ferror-limit", "20", "-DKILN_TARGET_CPU=1"};
  if (job.line_info) arguments.emplace_back("-debug-info-kind=line-tables-only");
  if (!job.header.empty()) arguments.insert(arguments.end(), {"-include-pch", kHeader});
  arguments.emplace_back(main_file(job));
  return arguments;
}

using MakeConsumer = llvm::function_ref<std::unique_ptr<clang::ASTConsumer>(clang::CompilerInstance&)>;

/// Reads the job's main file, hands it to the consumer, and calls `check`, which may report errors; false with the
/// reasons in `log`.
bool parse(const ClangJob& job, clang::TranslationUnitKind kind, clang::CompilerInstance& instance,
           MakeConsumer make_consumer, llvm::function_ref<void()> check, BoundsWatch& watch, llvm::raw_ostream& log) {
  const std::vector<std::string> arguments = front_end_arguments(job);
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());

  auto options = llvm::makeIntrusiveRefCnt<clang::DiagnosticOptions>();
  instance.createDiagnostics(new clang::TextDiagnosticPrinter(log, options.get()));
  clang::DiagnosticsEngine& diagnostics = instance.getDiagnostics();
  if (!clang::CompilerInvocation::CreateFromArgs(instance.getInvocation(), pointers, diagnostics)) return false;
  if (!instance.createTarget()) return false;

  instance.createFileManager(file_system(job));
  instance.createSourceManager(instance.getFileManager());
  if (!instance.InitializeSourceManager(instance.getFrontendOpts().Inputs.front())) return false;
  instance.createPreprocessor(kind);
  clang::Preprocessor& preprocessor = instance.getPreprocessor();
  instance.createASTContext();
  if (job.header.empty()) {
    preprocessor.getBuiltinInfo().initializeBuiltins(preprocessor.getIdentifierTable(), instance.getLangOpts());
  } else {
    // Validated in full: the options and the text of every file must be those it was made with.
    instance.createPCHExternalASTSource(kHeader, clang::DisableValidationForModuleKind(), false, nullptr, false);
    if (instance.getASTContext().getExternalSource() == nullptr) return false;
  }
  instance.setASTConsumer(make_consumer(instance));
  instance.createSema(kind, nullptr);
  watch.attach(instance.getSema());

  instance.getDiagnosticClient().BeginSourceFile(instance.getLangOpts(), &preprocessor);
  clang::ParseAST(instance.getSema());
  check();
  instance.getDiagnosticClient().EndSourceFile();
  return !diagnostics.hasErrorOccurred();
}

/// Parses and lowers the translation unit; null with the reasons in `log`. BackendUtil, Clang's own way to run passes,
/// is passed by: it parses cl::opt command lines on the way, which is global state.
std::unique_ptr<llvm::Module> lower(const ClangJob& job, llvm::LLVMContext& context, BoundsWatch& watch,
                                    llvm::raw_ostream& log) {
  clang::CompilerInstance instance;
  clang::CodeGenerator* generator = nullptr;
  const auto make_generator = [&](clang::CompilerInstance& in) {
    generator =
        clang::CreateLLVMCodeGen(in.getDiagnostics(), "kiln", in.getFileManager().getVirtualFileSystemPtr(),
                                 in.getHeaderSearchOpts(), in.getPreprocessorOpts(), in.getCodeGenOpts(), context);
    return std::unique_ptr<clang::ASTConsumer>(generator);
  };
  const auto check = [&] { check_globals(instance, *generator); };
  const bool is_sound = parse(job, clang::TU_Complete, instance, make_generator, check, watch, log);
  std::unique_ptr<llvm::Module> module(generator != nullptr ? generator->ReleaseModule() : nullptr);
  return is_sound ? std::move(module) : nullptr;
}

/// As lower(), from the job's precompiled header if there is one. Whatever goes wrong with it, the job is done again
/// from the text: a header that does not fit costs time, and a kernel's errors read the same with or without.
std::unique_ptr<llvm::Module> lower_from_header(const ClangJob& job, llvm::LLVMContext& context, BoundsWatch& watch,
                                                llvm::raw_ostream& log) {
  if (!job.header.empty()) {
    std::string header_log;
    llvm::raw_string_ostream header_stream(header_log);
    if (auto module = lower(job, context, watch, header_stream)) {
      log << header_log;
      return module;
    }
    if (watch.is_over()) return nullptr;
  }
  ClangJob plain = job;
  plain.header = {};
  return lower(plain, context, watch, log);
}

bool precompile(const ClangJob& job, BoundsWatch& watch, std::string& bytes, llvm::raw_ostream& log) {
  clang::CompilerInstance instance;
  const auto buffer = std::make_shared<clang::PCHBuffer>();
  const auto make_generator = [&](clang::CompilerInstance& in) {
    const llvm::ArrayRef<std::shared_ptr<clang::ModuleFileExtension>> no_extensions;
    return std::make_unique<clang::PCHGenerator>(in.getPreprocessor(), in.getModuleCache(), kHeader, "", buffer,
                                                 no_extensions, false, /*IncludeTimestamps=*/false);
  };
  const auto check = [] {};
  if (!parse(job, clang::TU_Prefix, instance, make_generator, check, watch, log) || !buffer->IsComplete) return false;
  bytes.assign(buffer->Data.begin(), buffer->Data.end());
  return true;
}

std::unique_ptr<llvm::TargetMachine> make_machine(const ClangJob& job, llvm::raw_ostream& log) {
  std::string problem;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, problem);
  if (target == nullptr) {
    log << "error: " << problem << '\n';
    return nullptr;
  }
  // Each function carries its own CPU, tuning and features; those given here only serve code that has none.
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(kTriple, kBaseCpu, job.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
}

/// LLVM's back-end messages (an asm constraint that cannot be met) go to the log instead of stderr. Those of stack
/// frames, which optimize() asks for, are added up.
struct BackEndDiagnostics final : llvm::DiagnosticHandler {
  BackEndDiagnostics(llvm::raw_ostream& out, bool& error, std::uint64_t& bytes)
      : log(out), has_error(error), stack_bytes(bytes) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (const auto* const frame = llvm::dyn_cast<llvm::DiagnosticInfoStackSize>(&info)) {
      stack_bytes += frame->getStackSize();
      return true;
    }
    if (info.getSeverity() == llvm::DS_Error) has_error = true;
    if (info.getSeverity() != llvm::DS_Error && info.getSeverity() != llvm::DS_Warning) return true;
    log << llvm::LLVMContext::getDiagnosticMessagePrefix(info.getSeverity()) << ": ";
    llvm::DiagnosticPrinterRawOStream printer(log);
    info.print(printer);
    log << '\n';
    return true;
  }
  llvm::raw_ostream& log;
  bool& has_error;
  std::uint64_t& stack_bytes;
};

/// Has the code generator leave out the passes that may be, once the compile is over.
struct CodeGeneratorGate final : llvm::OptPassGate {
  explicit CodeGeneratorGate(const BoundsWatch& bounds_watch) : watch(bounds_watch) {}
  bool isEnabled() const override { return watch.is_over(); }
  bool shouldRunPass(llvm::StringRef /*pass*/, llvm::StringRef /*unit*/) override { return !watch.is_over(); }
  const BoundsWatch& watch;
};

bool compile(const ClangJob& job, BoundsWatch& watch, std::string& bytes, llvm::raw_ostream& log) {
  initialize_llvm();
  if (job.output == ClangJob::Output::precompiled_header) return precompile(job, watch, bytes, log);
  llvm::LLVMContext context;
  context.setDiscardValueNames(job.output != ClangJob::Output::llvm_ir);  // they are for people
  bool has_error = false;
  std::uint64_t stack_bytes = 0;
  context.setDiagnosticHandler(std::make_unique<BackEndDiagnostics>(log, has_error, stack_bytes));
  CodeGeneratorGate gate(watch);
  context.setOptPassGate(gate);

  const std::unique_ptr<llvm::TargetMachine> machine = make_machine(job, log);
  if (machine == nullptr) return false;
  const std::unique_ptr<llvm::Module> module = lower_from_header(job, context, watch, log);
  if (module == nullptr) return false;
  module->setDataLayout(machine->createDataLayout());

  std::deque<std::string> function_names;
  llvm::TargetLibraryInfoImpl library_info{llvm::Triple(kTriple)};
  add_vector_functions(job.features, function_names, library_info);
  if (!optimize(job, *module, *machine, library_info, watch, log) || watch.is_over()) return false;

  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream out(buffer);
  if (job.output == ClangJob::Output::llvm_ir) {
    module->print(out, nullptr);
  } else {
    llvm::legacy::PassManager passes;
    passes.add(new llvm::TargetLibraryInfoWrapperPass(library_info));
    const auto type = job.output == ClangJob::Output::object ? llvm::CodeGenFileType::ObjectFile
                                                             : llvm::CodeGenFileType::AssemblyFile;
    if (machine->addPassesToEmitFile(passes, out, nullptr, type)) {
      log << "error: LLVM cannot emit this file type for " << kTriple << '\n';
      return false;
    }
    passes.run(*module);
  }
  // Together, since none of them may call another while it is too large; recursion is the kernel's own affair.
  if (stack_bytes > static_cast<std::uint64_t>(kMostCpuKernelStackBytes)) {
    log << "error: the kernel's local variables and tiles take " << stack_bytes
        << " bytes of stack, and the threads that run kernels have " << kMostCpuKernelStackBytes
        << " for them: make them smaller, or pass the memory as an argument\n";
    return false;
  }
  bytes.assign(buffer.begin(), buffer.end());
  return !has_error;
}

}  // namespace
}  // namespace kiln

extern "C" __attribute__((visibility("default"))) void kiln_clang_compile(const kiln::ClangJob& job,
                                                                          const kiln::CompileBounds& bounds,
                                                                          kiln::ClangResult& result) {
  kiln::BoundsWatch watch(bounds);
  std::string text;
  llvm::raw_string_ostream log(text);
  try {
    result.ok = kiln::compile(job, watch, result.bytes, log);
  } catch (const kiln::FatalError& error) {
    log << "error: LLVM gave up: " << error.reason << '\n';
  } catch (const std::exception& error) {
    log << "error: " << error.what() << '\n';
  }
  if (watch.is_over()) {
    result.ok = false;
    text = watch.reason();
  }
  result.log = kiln::without_dot_slash(log.str());
}

/// Takes the C library's place within this shared object, so that nothing in it is ever destroyed: a compile that was
/// left behind (compiler/compile_thread.hpp) may still run while the process exits.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (* /*function*/)(void*), void* /*argument*/,
                                                                  void* /*library*/) noexcept {
  return 0;
}
