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
#include <clang/Lex/PreprocessorOptions.h>
#include <clang/Parse/ParseAST.h>
#include <clang/Sema/Sema.h>
#include <clang/Serialization/ASTWriter.h>
#include <clang/Serialization/PCHContainerOperations.h>
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
/// A precompiled header, and the main file it was made from; Clang compares the latter's text with what it remembers.
constexpr const char* kHeader = "/kiln_header.pch";
constexpr const char* kHeaderMainFile = "kiln_header_stub.cpp";
/// What every CPU that Kiln runs on has.
constexpr const char* kBaseCpu = "x86-64";
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

llvm::StringRef as_llvm(std::string_view text) {
  return {text.data(), text.size()};
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
  add(main_file(job), as_llvm(job.stub));
  if (!job.header.empty()) {
    add(kHeaderMainFile, as_llvm(job.header_stub));
    files->addFile(kHeader, 0, llvm::MemoryBuffer::getMemBuffer(as_llvm(job.header), kHeader, false));
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
      "-mframe-pointer=none", "-fno-threadsafe-statics", "-ferror-limit", "20", "-DKILN_TARGET_CPU=1"};
  if (job.line_info) arguments.emplace_back("-debug-info-kind=line-tables-only");
  if (!job.header.empty()) arguments.insert(arguments.end(), {"-include-pch", kHeader});
  arguments.emplace_back(main_file(job));
  return arguments;
}

using MakeConsumer = llvm::function_ref<std::unique_ptr<clang::ASTConsumer>(clang::CompilerInstance&)>;

/// Reads the job's main file and hands it to the consumer; false with the reasons in `log`.
bool parse(const ClangJob& job, clang::TranslationUnitKind kind, clang::CompilerInstance& instance,
           MakeConsumer make_consumer, llvm::raw_ostream& log) {
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

  instance.getDiagnosticClient().BeginSourceFile(instance.getLangOpts(), &preprocessor);
  clang::ParseAST(instance.getSema());
  instance.getDiagnosticClient().EndSourceFile();
  return !diagnostics.hasErrorOccurred();
}

/// Parses and lowers the translation unit; null with the reasons in `log`. BackendUtil, Clang's own way to run passes,
/// is passed by: it parses cl::opt command lines on the way, which is global state.
std::unique_ptr<llvm::Module> lower(const ClangJob& job, llvm::LLVMContext& context, llvm::raw_ostream& log) {
  clang::CompilerInstance instance;
  clang::CodeGenerator* generator = nullptr;
  const auto make_generator = [&](clang::CompilerInstance& in) {
    generator =
        clang::CreateLLVMCodeGen(in.getDiagnostics(), "kiln", in.getFileManager().getVirtualFileSystemPtr(),
                                 in.getHeaderSearchOpts(), in.getPreprocessorOpts(), in.getCodeGenOpts(), context);
    return std::unique_ptr<clang::ASTConsumer>(generator);
  };
  const bool is_sound = parse(job, clang::TU_Complete, instance, make_generator, log);
  std::unique_ptr<llvm::Module> module(generator != nullptr ? generator->ReleaseModule() : nullptr);
  return is_sound ? std::move(module) : nullptr;
}

/// As lower(), from the job's precompiled header if there is one. Whatever goes wrong with it, the job is done again
/// from the text: a header that does not fit costs time, and a kernel's errors read the same with or without.
std::unique_ptr<llvm::Module> lower_from_header(const ClangJob& job, llvm::LLVMContext& context,
                                                llvm::raw_ostream& log) {
  if (!job.header.empty()) {
    std::string header_log;
    llvm::raw_string_ostream header_stream(header_log);
    if (auto module = lower(job, context, header_stream)) {
      log << header_log;
      return module;
    }
  }
  ClangJob plain = job;
  plain.header = {};
  return lower(plain, context, log);
}

bool precompile(const ClangJob& job, std::string& bytes, llvm::raw_ostream& log) {
  clang::CompilerInstance instance;
  const auto buffer = std::make_shared<clang::PCHBuffer>();
  const auto make_generator = [&](clang::CompilerInstance& in) {
    const llvm::ArrayRef<std::shared_ptr<clang::ModuleFileExtension>> no_extensions;
    return std::make_unique<clang::PCHGenerator>(in.getPreprocessor(), in.getModuleCache(), kHeader, "", buffer,
                                                 no_extensions, false, /*IncludeTimestamps=*/false);
  };
  if (!parse(job, clang::TU_Prefix, instance, make_generator, log) || !buffer->IsComplete) return false;
  bytes.assign(buffer->Data.begin(), buffer->Data.end());
  return true;
}

/// What the front end would have written on every function, had it known the CPU.
void set_target_attributes(llvm::Module& module, std::string_view features, llvm::StringRef tune_cpu) {
  for (llvm::Function& function : module) {
    function.addFnAttr("target-features", as_llvm(features));
    function.addFnAttr("tune-cpu", tune_cpu);
    if (has_feature(features, "+avx512f")) function.addFnAttr("prefer-vector-width", "512");
  }
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
  // Each function carries its own CPU, tuning and features; those given here only serve code that has none.
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(kTriple, kBaseCpu, as_llvm(job.features), llvm::TargetOptions(), llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
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
  // The default pipeline less what works across functions (its inliner, interprocedural constants, dead arguments): one
  // function is left. Simplified as -O2 does: -O3 would also unswitch loops on conditions that do not change in them,
  // which splits a strided tile's loops where they should have met, for 15 ms more to compile bf16 + bf16[:, None] and
  // code that takes twice as long. Vectorised and unrolled as -O3 does.
  constexpr auto kPhase = llvm::ThinOrFullLTOPhase::None;
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(
      builder.buildFunctionSimplificationPipeline(llvm::OptimizationLevel::O2, kPhase)));
  passes.addPass(builder.buildModuleOptimizationPipeline(llvm::OptimizationLevel::O3, kPhase));
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
  if (job.output == ClangJob::Output::precompiled_header) return precompile(job, bytes, log);
  llvm::LLVMContext context;
  bool has_error = false;
  context.setDiagnosticHandler(std::make_unique<BackEndDiagnostics>(log, has_error));

  const std::unique_ptr<llvm::TargetMachine> machine = make_machine(job, log);
  if (machine == nullptr) return false;
  const std::unique_ptr<llvm::Module> module = lower_from_header(job, context, log);
  if (module == nullptr) return false;
  const bool is_known_cpu = machine->getMCSubtargetInfo()->isCPUStringValid(as_llvm(job.tune_cpu));
  set_target_attributes(*module, job.features, is_known_cpu ? as_llvm(job.tune_cpu) : llvm::StringRef("generic"));
  module->setDataLayout(machine->createDataLayout());

  const VectorFunctions vector_functions(job.features);
  llvm::TargetLibraryInfoImpl library_info{llvm::Triple(kTriple)};
  library_info.addVectorizableFunctions(vector_functions.descriptions());
  if (!optimize(*module, as_llvm(job.entry), *machine, library_info, log)) return false;

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
