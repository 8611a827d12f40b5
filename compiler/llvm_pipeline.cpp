#include "compiler/llvm_pipeline.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/ReplaceConstant.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/FormatVariadic.h>
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

#include "compiler/llvm_copies.hpp"
#include "compiler/llvm_loops.hpp"
#include "compiler/llvm_masks.hpp"
#include "core/cpu_features.hpp"

namespace kiln {
namespace {

/// Where the tile language keeps the program id; see replace_program_global.
constexpr const char* kProgramGlobal = "kiln_program";
/// Where the tile language asks how wide vector registers are; see set_vector_bytes.
constexpr const char* kVectorBytesGlobal = "kiln_vector_bytes";
/// Functions of such names are what loads the object's own.
constexpr const char* kHostPrefix = "kiln_host_";

/// glibc's vector math library, or null on a C library that has none.
void* libmvec() {
  static void* const handle = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
  return handle;
}

/// What the front end would have written on every function, had it known the CPU.
void set_target_attributes(llvm::Module& module, std::string_view features, llvm::StringRef tune_cpu) {
  for (llvm::Function& function : module) {
    function.addFnAttr("target-features", features);
    function.addFnAttr("tune-cpu", tune_cpu);
    // Tiles make frames of many pages: past the end of a stack that is too small they would be in foreign memory.
    function.addFnAttr("probe-stack", "inline-asm");
    // The size of each frame is reported, as a "warning" above no bytes; the compiler adds them up.
    function.addFnAttr("warn-stack-size", "0");
    if (has_feature(features, "+avx512f")) function.addFnAttr("prefer-vector-width", "512");
  }
}

/// Kernels are parsed for any CPU (a precompiled header serves all of them), so what depends on the registers' width
/// is a branch on a variable until here, where it becomes a constant.
void set_vector_bytes(llvm::Module& module, std::string_view features) {
  llvm::GlobalVariable* const bytes = module.getGlobalVariable(kVectorBytesGlobal);
  if (bytes == nullptr) return;
  bytes->setInitializer(
      llvm::ConstantInt::get(bytes->getValueType(), static_cast<std::uint64_t>(cpu_vector_bytes(features))));
  bytes->setConstant(true);
  bytes->setLinkage(llvm::GlobalValue::InternalLinkage);
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

/// Tiles that do not fit registers begin at a line of the cache, which vectors then do not straddle.
void align_tiles(llvm::Function& entry) {
  const llvm::Align line(64);
  constexpr std::uint64_t kTileBytes = 1024;
  const llvm::DataLayout& layout = entry.getDataLayout();
  for (llvm::Instruction& instruction : entry.getEntryBlock())
    if (auto* local = llvm::dyn_cast<llvm::AllocaInst>(&instruction))
      if (const auto bytes = local->getAllocationSize(layout); bytes && bytes->getFixedValue() >= kTileBytes)
        local->setAlignment(std::max(local->getAlign(), line));
}

/// Locals that are aligned to pages and more get what they want by arithmetic on an address within a larger local. LLVM
/// would align the whole frame, whose prologue probes the stack in a loop that shrink-wrapping misplaces: such kernels
/// crashed or never returned.
void align_locals(llvm::Function& function) {
  constexpr std::uint64_t kPageBytes = 4096;
  const llvm::DataLayout& layout = function.getDataLayout();
  llvm::SmallVector<llvm::AllocaInst*, 4> locals;
  for (llvm::Instruction& instruction : llvm::instructions(function))
    if (auto* local = llvm::dyn_cast<llvm::AllocaInst>(&instruction))
      if (local->isStaticAlloca() && local->getAlign().value() >= kPageBytes) locals.push_back(local);
  for (llvm::AllocaInst* local : locals) {
    const std::uint64_t align = local->getAlign().value();
    llvm::IRBuilder<> builder(local);
    auto* const bytes =
        llvm::ArrayType::get(builder.getInt8Ty(), local->getAllocationSize(layout)->getFixedValue() + align - 1);
    llvm::AllocaInst* const larger = builder.CreateAlloca(bytes, nullptr, local->getName());
    larger->setAlignment(llvm::Align(16));
    llvm::Value* const past = builder.CreateConstGEP1_64(builder.getInt8Ty(), larger, align - 1);
    llvm::Value* const address = builder.CreateIntrinsic(
        llvm::Intrinsic::ptrmask, {past->getType(), builder.getInt64Ty()}, {past, builder.getInt64(~(align - 1))});
    // What marks the lifetime of a local wants the local itself.
    for (llvm::User* user : llvm::make_early_inc_range(local->users()))
      if (auto* const call = llvm::dyn_cast<llvm::IntrinsicInst>(user); call != nullptr && call->isLifetimeStartOrEnd())
        call->eraseFromParent();
    local->replaceAllUsesWith(address);
    local->eraseFromParent();
  }
}

/// Locals whose size is known when the kernel runs cannot be held against the stack that there is. False with the
/// reason in `log`.
bool check_locals(llvm::Function& function, llvm::raw_ostream& log) {
  for (llvm::Instruction& instruction : llvm::instructions(function)) {
    const auto* const local = llvm::dyn_cast<llvm::AllocaInst>(&instruction);
    if (local == nullptr || local->isStaticAlloca()) continue;
    log << "error: a local array's size is not known when the kernel is compiled, which NVRTC refuses and which "
           "nothing "
           "keeps within the stack on the CPU: make the size a template argument\n";
    return false;
  }
  return true;
}

/// The tile language writes the program id to a global; a global would be shared between threads and would stay in
/// memory. Once everything that reads it has been inlined it becomes a local of the entry, which the optimiser keeps in
/// registers. False with the reason in `log`.
bool replace_program_global(llvm::Module& module, llvm::Function& entry, llvm::raw_ostream& log) {
  llvm::GlobalVariable* program = nullptr;
  for (llvm::GlobalVariable& global : module.globals())
    if (global.hasLocalLinkage() && llvm::GlobalValue::dropLLVMManglingEscape(global.getName()) == kProgramGlobal)
      program = &global;
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

/// A function of ours as a pass: one that changes code returns whether it did, one that takes analyses marks loops.
template <auto kRun>
struct KernelPass : llvm::PassInfoMixin<KernelPass<kRun>> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    if constexpr (std::is_invocable_v<decltype(kRun), llvm::Function&>) {
      return kRun(function) ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
    } else {
      kRun(function, analyses);
      return llvm::PreservedAnalyses::all();
    }
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
  passes.addPass(KernelPass<share_parameters>());
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
  passes.addPass(KernelPass<hold_loops>());
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
  passes.addPass(KernelPass<elide_copies>());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());

  llvm::LoopPassManager rotating_again;
  rotating_again.addPass(llvm::LoopRotatePass());
  rotating_again.addPass(llvm::LoopDeletionPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(rotating_again)));
  passes.addPass(llvm::InjectTLIMappings());
  passes.addPass(llvm::LoopVectorizePass());
  passes.addPass(KernelPass<release_loops>());
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
  passes.addPass(KernelPass<narrow_masks>());
  passes.addPass(llvm::EarlyCSEPass());
  return passes;
}

}  // namespace

bool optimize(const ClangJob& job, llvm::Module& module, llvm::TargetMachine& machine,
              const llvm::TargetLibraryInfoImpl& library_info, const BoundsWatch& watch, llvm::raw_ostream& log) {
  const llvm::StringRef entry_name = job.entry;
  llvm::Function* entry = module.getFunction(entry_name);
  if (entry == nullptr || entry->isDeclaration()) {
    log << "error: the kernel's translation unit defines no '" << entry_name << "'\n";
    return false;
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassInstrumentationCallbacks instrumentation;
  instrumentation.registerShouldRunOptionalPassCallback(
      [&](llvm::StringRef, const llvm::Any&) { return !watch.is_over(); });
  llvm::PassBuilder builder(&machine, llvm::PipelineTuningOptions(), std::nullopt, &instrumentation);
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library_info); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);

  const bool is_known_cpu = machine.getMCSubtargetInfo()->isCPUStringValid(job.tune_cpu);
  set_target_attributes(module, job.features, is_known_cpu ? job.tune_cpu : "generic");
  set_vector_bytes(module, job.features);
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
  align_tiles(*entry);
  modules.invalidate(module, llvm::PreservedAnalyses::none());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(kernel_pipeline()));
  // Functions that are not inlined, and constants that the loops' idioms have become.
  passes.addPass(llvm::GlobalDCEPass());
  passes.run(module, modules);
  bool is_sound = true;
  for (llvm::Function& function : module) {
    align_locals(function);
    is_sound = check_locals(function, log) && is_sound;
  }
  return check_calls(module, log) && is_sound;
}

void add_vector_functions(std::string_view features, std::deque<std::string>& names,
                          llvm::TargetLibraryInfoImpl& library_info) {
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
  std::vector<llvm::VecDesc> descriptions;
  const auto keep = [&](std::string text) { return llvm::StringRef(names.emplace_back(std::move(text))); };
  const auto add = [&](char isa, unsigned lanes, const char* arguments, const std::string& name, bool is_double) {
    const std::string function = name + (is_double ? "" : "f");
    const std::string signature = llvm::formatv("N{0}{1}", lanes, arguments).str();
    const std::string vector_name = llvm::formatv("_ZGV{0}{1}_{2}", isa, signature, function).str();
    if (dlsym(libmvec(), vector_name.c_str()) == nullptr) return;
    const llvm::StringRef kept = keep(vector_name);
    const llvm::StringRef prefix = keep(llvm::formatv("_ZGV_LLVM_{0}", signature).str());
    const auto count = llvm::ElementCount::getFixed(lanes);
    descriptions.emplace_back(keep(function), kept, count, false, prefix);
    // Not every name has an intrinsic; an entry that never matches is harmless.
    descriptions.emplace_back(keep(llvm::formatv("llvm.{0}.{1}", name, is_double ? "f64" : "f32").str()), kept, count,
                              false, prefix);
  };
  for (const Isa& isa : isas) {
    if (!isa.is_available) continue;
    for (const bool is_double : {false, true}) {
      const unsigned lanes = isa.register_bytes / (is_double ? 8 : 4);
      for (const char* name : kUnary) add(isa.letter, lanes, "v", name, is_double);
      for (const char* name : kBinary) add(isa.letter, lanes, "vv", name, is_double);
    }
  }
  library_info.addVectorizableFunctions(descriptions);
}

}  // namespace kiln
