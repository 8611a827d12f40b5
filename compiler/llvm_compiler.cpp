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
#include <llvm/IR/IntrinsicInst.h>
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
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/DeadStoreElimination.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/IndVarSimplify.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopDeletion.h>
#include <llvm/Transforms/Scalar/LoopIdiomRecognize.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/LoopSimplifyCFG.h>
#include <llvm/Transforms/Scalar/LoopUnrollPass.h>
#include <llvm/Transforms/Scalar/MemCpyOptimizer.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/InjectTLIMappings.h>
#include <llvm/Transforms/Vectorize/LoopVectorize.h>
#include <llvm/Transforms/Vectorize/SLPVectorizer.h>
#include <llvm/Transforms/Vectorize/VectorCombine.h>

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
/// Functions of such names are what loads the object's own.
constexpr const char* kHostPrefix = "kiln_host_";

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
      "-mframe-pointer=none", "-fno-threadsafe-statics",
      // Tiles are locals, whose accesses the optimiser tells apart without types: the marks would only cost time.
      "-relaxed-aliasing", "-ferror-limit", "20", "-DKILN_TARGET_CPU=1"};
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
    if (name.starts_with(kHostPrefix)) return;
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

/// The one copy that fills `local` whole, if nothing else writes it and its address goes nowhere; otherwise null.
llvm::MemCpyInst* only_write(llvm::AllocaInst& local, const llvm::DataLayout& layout) {
  llvm::MemCpyInst* write = nullptr;
  llvm::SmallVector<llvm::Instruction*, 8> pointers{&local};
  while (!pointers.empty()) {
    llvm::Instruction* pointer = pointers.pop_back_val();
    for (llvm::User* user : pointer->users()) {
      auto* instruction = llvm::cast<llvm::Instruction>(user);
      if (llvm::isa<llvm::GetElementPtrInst>(instruction)) {
        pointers.push_back(instruction);
      } else if (auto* copy = llvm::dyn_cast<llvm::MemCpyInst>(instruction)) {
        if (copy->isVolatile()) return nullptr;
        if (copy->getRawDest() != pointer) continue;  // a read
        const auto* bytes = llvm::dyn_cast<llvm::ConstantInt>(copy->getLength());
        const bool is_whole = pointer == &local && bytes != nullptr &&
                              local.getAllocationSize(layout) == bytes->getValue().getZExtValue();
        if (write != nullptr || !is_whole) return nullptr;
        write = copy;
      } else if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(instruction)) {
        if (!load->isSimple()) return nullptr;
      } else if (!instruction->isLifetimeStartOrEnd()) {
        return nullptr;
      }
    }
  }
  return write;
}

/// A kernel takes its structs by value, so each program of the entry's loop has a copy of its own: half a kilobyte for
/// a strided kernel's iteration, which took longer than a tile's work. A copy that the kernel does not change becomes
/// the entry's own, from which whatever does not depend on the program is then read once. LLVM's passes see this only
/// for constant memory. Wants a function after SROA: before, the addresses of parameters are kept in variables.
struct ShareParameters : llvm::PassInfoMixin<ShareParameters> {
  llvm::PreservedAnalyses run(llvm::Function& entry, llvm::FunctionAnalysisManager&) {
    std::vector<llvm::AllocaInst*> locals;
    for (llvm::Instruction& instruction : entry.getEntryBlock())
      if (auto* local = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) locals.push_back(local);
    bool changed = false;
    // A copy of a copy can only go once the first has gone.
    for (auto shared = locals.begin(); shared != locals.end();) {
      shared = std::find_if(locals.begin(), locals.end(), [](llvm::AllocaInst* local) { return share(*local); });
      if (shared == locals.end()) break;
      locals.erase(shared);
      changed = true;
      shared = locals.begin();
    }
    return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
  }

 private:
  /// Whether `local` was a copy that could be, and has been, replaced by its original.
  static bool share(llvm::AllocaInst& local) {
    const llvm::DataLayout& layout = local.getDataLayout();
    llvm::MemCpyInst* const copy = only_write(local, layout);
    if (copy == nullptr) return false;
    auto* const original = llvm::dyn_cast<llvm::AllocaInst>(copy->getRawSource());
    if (original == nullptr || original->getAllocationSize(layout) != local.getAllocationSize(layout)) return false;
    // Filled once, at the start, the original holds at every read what it held when it was copied.
    const llvm::MemCpyInst* const filling = only_write(*original, layout);
    const llvm::BasicBlock* const start = local.getParent();
    if (filling == nullptr || filling->getParent() != start) return false;
    if (copy->getParent() == start && !filling->comesBefore(copy)) return false;
    copy->eraseFromParent();
    for (llvm::AllocaInst* one : {&local, original})
      for (llvm::User* user : llvm::make_early_inc_range(one->users()))
        if (auto* marker = llvm::cast<llvm::Instruction>(user); marker->isLifetimeStartOrEnd())
          marker->eraseFromParent();
    original->setAlignment(std::max(original->getAlign(), local.getAlign()));
    if (local.comesBefore(original)) original->moveBefore(&local);
    local.replaceAllUsesWith(original);
    local.eraseFromParent();
    return true;
  }
};

/// What is left of LLVM's default pipeline when one function of straight loops over tiles is all there is. It runs
/// nothing that works across functions, and none of the passes that found nothing to do in kernels but took 2 of 9 ms:
/// constraint elimination, SCCP, jump threading, value propagation, load elimination across iterations and the like.
/// As -O2, not -O3: loops are not unswitched, which splits a strided tile's loops where they should have met, for code
/// that takes twice as long.
llvm::FunctionPassManager kernel_pipeline() {
  const auto keep_cfg = llvm::SROAOptions::PreserveCFG, change_cfg = llvm::SROAOptions::ModifyCFG;
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(change_cfg));
  passes.addPass(ShareParameters());
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());
  llvm::LoopPassManager rotating;
  rotating.addPass(llvm::LoopSimplifyCFGPass());
  rotating.addPass(llvm::LICMPass(llvm::LICMOptions()));
  rotating.addPass(llvm::LoopRotatePass());
  rotating.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(rotating), /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());
  llvm::LoopPassManager counting;
  counting.addPass(llvm::LoopIdiomRecognizePass());
  counting.addPass(llvm::IndVarSimplifyPass());
  counting.addPass(llvm::LoopDeletionPass());
  counting.addPass(llvm::LoopFullUnrollPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(counting)));
  passes.addPass(llvm::SROAPass(change_cfg));
  passes.addPass(llvm::GVNPass());
  passes.addPass(llvm::MemCpyOptPass());
  passes.addPass(llvm::DSEPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());

  llvm::LoopPassManager rotating_again;
  rotating_again.addPass(llvm::LoopRotatePass());
  rotating_again.addPass(llvm::LoopDeletionPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(rotating_again)));
  passes.addPass(llvm::InjectTLIMappings());
  passes.addPass(llvm::LoopVectorizePass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::SLPVectorizerPass());
  passes.addPass(llvm::VectorCombinePass());
  passes.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(/*OptLevel=*/3)));
  // Vectorised and unrolled, a tile's array is a few whole registers.
  passes.addPass(llvm::SROAPass(keep_cfg));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  return passes;
}

/// Inlines, optimises and checks the module.
bool optimize(llvm::Module& module, llvm::StringRef entry_name, llvm::TargetMachine& machine,
              const llvm::TargetLibraryInfoImpl& library_info, llvm::raw_ostream& log) {
  llvm::Function* entry = module.getFunction(entry_name);
  if (entry == nullptr || entry->isDeclaration()) {
    log << "error: the kernel's translation unit defines no '" << entry_name << "'\n";
    return false;
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
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
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(kernel_pipeline()));
  // Functions that are not inlined, and constants that the loops' idioms have become.
  passes.addPass(llvm::GlobalDCEPass());
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
  context.setDiscardValueNames(job.output != ClangJob::Output::llvm_ir);  // they are for people
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
