#include "compiler/llvm_globals.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Decl.h>
#include <clang/Basic/Diagnostic.h>
#include <clang/CodeGen/ModuleBuilder.h>
#include <clang/Frontend/CompilerInstance.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/FormatVariadic.h>

namespace kiln {
namespace {

constexpr const char* kRunsCode =
    "%0 needs code of its own to run %1, and nothing runs it for a kernel: give it a constant initialiser and no "
    "destructor (constexpr), or compute it inside the kernel";

/// The functions of llvm.global_ctors or llvm.global_dtors.
template <typename Visit>
void for_each_listed(const llvm::Module& module, llvm::StringRef list, const Visit& visit) {
  const llvm::GlobalVariable* const variable = module.getGlobalVariable(list);
  if (variable == nullptr || !variable->hasInitializer()) return;
  const auto* const entries = llvm::dyn_cast<llvm::ConstantArray>(variable->getInitializer());
  if (entries == nullptr) return;
  for (const llvm::Use& entry : entries->operands())
    if (const auto* const function = llvm::dyn_cast<llvm::Function>(
            llvm::cast<llvm::Constant>(entry.get())->getAggregateElement(1U)->stripPointerCasts()))
      visit(*function);
}

/// Whether Clang guards the variable's initialiser, which then runs when the kernel first comes by: of all its programs
/// at once.
bool has_guard(const llvm::Module& module, llvm::StringRef name) {
  return name.starts_with("_Z") && module.getNamedValue(("_ZGV" + name.drop_front(2)).str()) != nullptr;
}

}  // namespace

void check_globals(clang::CompilerInstance& instance, clang::CodeGenerator& generator) {
  const llvm::Module* const module = generator.GetModule();
  clang::DiagnosticsEngine& diagnostics = instance.getDiagnostics();
  if (module == nullptr || diagnostics.hasErrorOccurred()) return;
  const unsigned runs_code = diagnostics.getDiagnosticIDs()->getCustomDiagID(clang::DiagnosticIDs::Error, kRunsCode);
  const unsigned thread_local_variable = diagnostics.getDiagnosticIDs()->getCustomDiagID(
      clang::DiagnosticIDs::Error, "%0 is thread_local, which variables of kernels cannot be");
  const auto declaration = [&](const llvm::GlobalValue& value) {
    return generator.GetDeclForMangledName(value.getName());
  };

  for (const llvm::GlobalVariable& global : module->globals()) {
    const auto* variable = llvm::dyn_cast_or_null<clang::VarDecl>(declaration(global));
    if (variable == nullptr) continue;
    if (variable->getTLSKind() != clang::VarDecl::TLS_None) {
      diagnostics.Report(variable->getLocation(), thread_local_variable) << variable;
      continue;
    }
    // A static member is declared in its class, without the initialiser.
    if (const clang::VarDecl* const initialising = variable->getInitializingDeclaration()) variable = initialising;
    if (!global.hasInitializer() || variable->isConstexpr()) continue;
    const bool is_constant = variable->isStaticLocal() ? !has_guard(*module, global.getName())
                                                       : !variable->hasInit() || variable->hasConstantInitialization();
    if (variable->needsDestruction(instance.getASTContext()) != clang::QualType::DK_none)
      diagnostics.Report(variable->getLocation(), runs_code) << variable << "when it is destroyed";
    else if (!is_constant)
      diagnostics.Report(variable->getLocation(), runs_code) << variable << "before it can be read";
  }
  if (diagnostics.hasErrorOccurred()) return;
  for (const char* list : {"llvm.global_ctors", "llvm.global_dtors"})
    for_each_listed(*module, list, [&](const llvm::Function& function) {
      const clang::Decl* const declared = declaration(function);
      diagnostics.Report(declared != nullptr ? declared->getLocation() : clang::SourceLocation(), runs_code)
          << llvm::formatv("'{0}'", llvm::demangle(function.getName().str())).str() << "by itself";
    });
}

}  // namespace kiln
