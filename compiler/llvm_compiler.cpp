// libkiln-clang.so: Clang's front end and LLVM's x86 back end, in process. The only file that includes them.
#include <dlfcn.h>

#include <algorithm>
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
#include <clang/Parse/ParseAST.h>
#include <clang/Sema/Sema.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/ReplaceConstant.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/thread.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "compiler/clang_library.hpp"

// No exception may cross LLVM's frames on the way to a caller, so this file reports through ClangResult and
// std::optional. The one exception is FatalError.
namespace kiln {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";
constexpr const char* kMainFile = "kiln_stub.cpp";
constexpr unsigned kStackBytes = 16U << 20U;
/// Where the tile language keeps the program id; see replace_program_global.
constexpr const char* kProgramGlobal = "kiln_program";

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

bool has_feature(std::string_view features, std::string_view wanted) {
  for (std::size_t start = 0; start < features.size();) {
    const std::size_t end = std::min(features.find(',', start), features.size());
    if (features.substr(start, end - start) == wanted) return true;
    start = end + 1;
  }
  return false;
}

/// glibc's vector math library, or null on a C library that has none.
void* libmvec() {
  static void* const handle = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
  return handle;
}

/// The vector forms of math functions that this machine's libmvec has (their error is at most 4 ulp, libm's 1). LLVM's
/// own table for libmvec stops at glibc 2.22's.
class VectorFunctions {
 public:
  explicit VectorFunctions(std::string_view features) {
    static constexpr const char* kUnary[] = {"acos",  "acosh", "asin", "asinh", "atan", "atanh", "cbrt",  "cos",
                                             "cosh",  "erf",   "erfc", "exp",   "exp2", "exp10", "expm1", "log",
                                             "log10", "log1p", "log2", "sin",   "sinh", "tan",   "tanh"};
    static constexpr const char* kBinary[] = {"atan2", "hypot", "pow"};
    if (libmvec() == nullptr) return;
    struct Isa {
      char letter;
      unsigned register_bytes;
      bool is_available;
    };
    const Isa isas[] = {
        {'b', 16, true}, {'d', 32, has_feature(features, "+avx2")}, {'e', 64, has_feature(features, "+avx512f")}};
    for (const Isa& isa : isas) {
      if (!isa.is_available) continue;
      for (const bool is_double : {false, true}) {
        const unsigned lanes = isa.register_bytes / (is_double ? 8 : 4);
        for (const char* name : kUnary) add(isa.letter, lanes, "v", name, is_double);
        for (const char* name : kBinary) add(isa.letter, lanes, "vv", name, is_double);
      }
    }
  }
  const std::vector<llvm::VecDesc>& descriptions() const { return descriptions_; }

 private:
  llvm::StringRef keep(std::string text) { return names_.emplace_back(std::move(text)); }

  void add(char isa, unsigned lanes, const std::string& arguments, const std::string& name, bool is_double) {
    const std::string function = name + (is_double ? "" : "f");
    const std::string signature = llvm::formatv("N{0}{1}", lanes, arguments).str();
    const std::string vector_name = llvm::formatv("_ZGV{0}{1}_{2}", isa, signature, function).str();
    if (dlsym(libmvec(), vector_name.c_str()) == nullptr) return;
    const llvm::StringRef kept = keep(vector_name);
    const llvm::StringRef prefix = keep(llvm::formatv("_ZGV_LLVM_{0}", signature).str());
    const auto count = llvm::ElementCount::getFixed(lanes);
    descriptions_.emplace_back(keep(function), kept, count, false, prefix);
    // Not every name has an intrinsic; an entry that never matches is harmless.
    descriptions_.emplace_back(keep(llvm::formatv("llvm.{0}.{1}", name, is_double ? "f64" : "f32").str()), kept, count,
                               false, prefix);
  }

  std::deque<std::string> names_;  // a deque: descriptions_ points into the strings
  std::vector<llvm::VecDesc> descriptions_;
};

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

llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> file_system(const ClangJob& job) {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  files->setCurrentWorkingDirectory("/");
  const auto add = [&](llvm::StringRef path, llvm::StringRef text) {
    files->addFile(path, 0, llvm::MemoryBuffer::getMemBufferCopy(text, path));
  };
  add(kMainFile, llvm::StringRef(job.stub.data(), job.stub.size()));
  for (const KernelSource& source : *job.sources) add(source.path, source.text);
  return files;
}

std::vector<std::string> front_end_arguments(const ClangJob& job, llvm::StringRef tune_cpu) {
  std::vector<std::string> arguments = {
      "-triple", kTriple, "-target-cpu", "x86-64", "-tune-cpu", tune_cpu.str(), "-x", "c++", "-std=c++20", "-O3",
      // No file of the machine is looked at: what a kernel includes is in the job.
      "-nostdsysteminc", "-nobuiltininc", "-nostdinc++", "-I.",
      // Contraction would make results depend on how LLVM happened to combine a tile's operations.
      "-ffp-contract=off", "-fno-rtti", "-fgnuc-version=4.2.1", "-mrelocation-model", "pic", "-pic-level", "2",
      "-mframe-pointer=none", "-fno-threadsafe-statics", "-ferror-limit", "20", "-DKILN_TARGET_CPU=1"};
  if (has_feature(job.features, "+avx512f")) arguments.emplace_back("-mprefer-vector-width=512");
  if (job.line_info) arguments.emplace_back("-debug-info-kind=line-tables-only");
  for (std::size_t start = 0; start < job.features.size();) {
    const std::size_t end = std::min(job.features.find(',', start), job.features.size());
    arguments.emplace_back("-target-feature");
    arguments.emplace_back(job.features.substr(start, end - start));
    start = end + 1;
  }
  arguments.emplace_back(kMainFile);
  return arguments;
}

/// Parses and lowers the translation unit; null with the reasons in `log`. BackendUtil, Clang's own way to run passes,
/// is passed by: it parses cl::opt command lines on the way, which is global state.
std::unique_ptr<llvm::Module> lower(const ClangJob& job, llvm::StringRef tune_cpu, llvm::LLVMContext& context,
                                    llvm::raw_ostream& log) {
  const std::vector<std::string> arguments = front_end_arguments(job, tune_cpu);
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());

  clang::CompilerInstance instance;
  auto options = llvm::makeIntrusiveRefCnt<clang::DiagnosticOptions>();
  clang::TextDiagnosticPrinter printer(log, options.get());
  instance.createDiagnostics(&printer, false);
  clang::DiagnosticsEngine& diagnostics = instance.getDiagnostics();
  if (!clang::CompilerInvocation::CreateFromArgs(instance.getInvocation(), pointers, diagnostics)) return nullptr;
  if (!instance.createTarget()) return nullptr;

  const auto files = file_system(job);
  instance.createFileManager(files);
  instance.createSourceManager(instance.getFileManager());
  if (!instance.InitializeSourceManager(instance.getFrontendOpts().Inputs.front())) return nullptr;
  instance.createPreprocessor(clang::TU_Complete);
  clang::Preprocessor& preprocessor = instance.getPreprocessor();
  preprocessor.getBuiltinInfo().initializeBuiltins(preprocessor.getIdentifierTable(), instance.getLangOpts());
  instance.createASTContext();
  clang::CodeGenerator* generator =
      clang::CreateLLVMCodeGen(diagnostics, "kiln", files, instance.getHeaderSearchOpts(),
                               instance.getPreprocessorOpts(), instance.getCodeGenOpts(), context);
  instance.setASTConsumer(std::unique_ptr<clang::ASTConsumer>(generator));
  instance.createSema(clang::TU_Complete, nullptr);

  printer.BeginSourceFile(instance.getLangOpts(), &preprocessor);
  clang::ParseAST(instance.getSema());
  printer.EndSourceFile();
  std::unique_ptr<llvm::Module> module(generator->ReleaseModule());
  return diagnostics.hasErrorOccurred() ? nullptr : std::move(module);
}

/// Everything but the entry becomes private to the module and is inlined into it, whatever the inliner would have
/// thought of the cost: a tile operation that stays a call passes its tile through memory.
void force_inlining(llvm::Module& module, llvm::StringRef entry) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    if (function.getName() == entry) continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    function.setComdat(nullptr);
    function.setVisibility(llvm::GlobalValue::DefaultVisibility);
    if (!function.hasFnAttribute(llvm::Attribute::NoInline)) function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
}

/// The tile language writes the program id to a global; a global would be shared between threads and would stay in
/// memory. Once everything that reads it has been inlined it becomes a local of the entry, which the optimiser keeps in
/// registers. False with the reason in `log`.
bool replace_program_global(llvm::Module& module, llvm::Function& entry, llvm::raw_ostream& log) {
  llvm::GlobalVariable* program = nullptr;
  for (llvm::GlobalVariable& global : module.globals())
    if (global.hasLocalLinkage() && global.getName().contains(kProgramGlobal)) program = &global;
  if (program == nullptr) return true;
  llvm::convertUsersOfConstantsToInstructions({program});
  for (const llvm::User* user : program->users()) {
    const auto* instruction = llvm::dyn_cast<llvm::Instruction>(user);
    if (instruction != nullptr && instruction->getFunction() == &entry) continue;
    log << "error: the program id is read in '"
        << (instruction != nullptr ? llvm::demangle(instruction->getFunction()->getName().str()) : "a constant")
        << "', which was not inlined into the kernel; a function that is recursive, noinline or called through a "
           "pointer "
           "cannot ask for it: pass it as an argument\n";
    return false;
  }
  llvm::IRBuilder<> builder(&entry.getEntryBlock(), entry.getEntryBlock().begin());
  llvm::AllocaInst* local = builder.CreateAlloca(program->getValueType(), nullptr, kProgramGlobal);
  local->setAlignment(program->getAlign().valueOrOne());
  program->replaceAllUsesWith(local);
  program->eraseFromParent();
  return true;
}

/// Calls to functions that the process does not have are found here, while there is still a name to show, rather than
/// when the object is linked.
bool check_calls(const llvm::Module& module, llvm::raw_ostream& log) {
  bool is_complete = true;
  const auto check = [&](const llvm::GlobalValue& value, const char* what) {
    if (!value.isDeclaration() || value.use_empty() || value.getName().starts_with("llvm.")) return;
    const std::string name = value.getName().str();
    if (dlsym(RTLD_DEFAULT, name.c_str()) != nullptr) return;
    if (libmvec() != nullptr && dlsym(libmvec(), name.c_str()) != nullptr) return;
    log << "error: undefined " << what << " '" << llvm::demangle(name)
        << "': it is declared but not defined in the kernel's sources, and this process does not have it\n";
    is_complete = false;
  };
  for (const llvm::Function& function : module) check(function, "function");
  for (const llvm::GlobalVariable& variable : module.globals()) check(variable, "variable");
  return is_complete;
}

std::unique_ptr<llvm::TargetMachine> make_machine(const ClangJob& job, llvm::raw_ostream& log) {
  std::string problem;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, problem);
  if (target == nullptr) {
    log << "error: " << problem << '\n';
    return nullptr;
  }
  // Each function carries its own CPU, tuning and features from the front end; those given here only serve code that
  // has none.
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      kTriple, "x86-64", llvm::StringRef(job.features.data(), job.features.size()), llvm::TargetOptions(),
      llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
}

/// Inlines, optimises and checks the module.
bool optimize(llvm::Module& module, llvm::StringRef entry_name, llvm::TargetMachine& machine,
              const llvm::TargetLibraryInfoImpl& library_info, llvm::raw_ostream& log) {
  llvm::Function* entry = module.getFunction(entry_name);
  if (entry == nullptr || entry->isDeclaration()) {
    log << "error: the kernel's translation unit defines no '" << entry_name << "'\n";
    return false;
  }
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = true;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library_info); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);

  force_inlining(module, entry_name);
  llvm::ModulePassManager inlining;
  // Simplified before they are inlined, functions are simplified once instead of once per call.
  llvm::FunctionPassManager early;
  early.addPass(llvm::SimplifyCFGPass());
  early.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  early.addPass(llvm::EarlyCSEPass());
  inlining.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(early)));
  inlining.addPass(llvm::AlwaysInlinerPass());
  inlining.addPass(llvm::GlobalDCEPass());
  inlining.run(module, modules);
  if (!replace_program_global(module, *entry, log)) return false;
  modules.invalidate(module, llvm::PreservedAnalyses::none());
  // The default -O3 pipeline less what works across functions (its inliner, interprocedural constants, dead arguments):
  // one function is left.
  const auto kLevel = llvm::OptimizationLevel::O3;
  constexpr auto kPhase = llvm::ThinOrFullLTOPhase::None;
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(builder.buildFunctionSimplificationPipeline(kLevel, kPhase)));
  passes.addPass(builder.buildModuleOptimizationPipeline(kLevel, kPhase));
  passes.run(module, modules);
  return check_calls(module, log);
}

/// LLVM's back-end messages (an asm constraint that cannot be met, a stack frame too large) go to the log instead of
/// stderr.
struct BackEndDiagnostics final : llvm::DiagnosticHandler {
  BackEndDiagnostics(llvm::raw_ostream& out, bool& error) : log(out), has_error(error) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
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
};

bool compile(const ClangJob& job, std::string& bytes, llvm::raw_ostream& log) {
  initialize_llvm();
  llvm::LLVMContext context;
  bool has_error = false;
  context.setDiagnosticHandler(std::make_unique<BackEndDiagnostics>(log, has_error));

  const std::unique_ptr<llvm::TargetMachine> machine = make_machine(job, log);
  if (machine == nullptr) return false;
  const llvm::StringRef wanted_cpu(job.tune_cpu.data(), job.tune_cpu.size());
  const bool is_known_cpu = machine->getMCSubtargetInfo()->isCPUStringValid(wanted_cpu);
  const std::unique_ptr<llvm::Module> module =
      lower(job, is_known_cpu ? wanted_cpu : llvm::StringRef("generic"), context, log);
  if (module == nullptr) return false;
  module->setDataLayout(machine->createDataLayout());

  const VectorFunctions vector_functions(job.features);
  llvm::TargetLibraryInfoImpl library_info{llvm::Triple(kTriple)};
  library_info.addVectorizableFunctions(vector_functions.descriptions());
  if (!optimize(*module, llvm::StringRef(job.entry.data(), job.entry.size()), *machine, library_info, log))
    return false;

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
  bytes.assign(buffer.begin(), buffer.end());
  return !has_error;
}

}  // namespace
}  // namespace kiln

extern "C" __attribute__((visibility("default"))) void kiln_clang_compile(const kiln::ClangJob& job,
                                                                          kiln::ClangResult& result) {
  // Deep templates need more stack than a caller's thread may have.
  llvm::thread worker(std::optional<unsigned>(kiln::kStackBytes), [&] {
    std::string text;
    llvm::raw_string_ostream log(text);
    try {
      result.ok = kiln::compile(job, result.bytes, log);
    } catch (const kiln::FatalError& error) {
      log << "error: LLVM gave up: " << error.reason << '\n';
    } catch (const std::exception& error) {
      log << "error: " << error.what() << '\n';
    }
    result.log = kiln::without_dot_slash(log.str());
  });
  worker.join();
}
