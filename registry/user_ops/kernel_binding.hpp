#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/kernel_signature.hpp"
#include "core/attributes.hpp"
#include "ops/op_spec.hpp"

namespace kiln {

/// Fills in what a kernel declares from values that are known by name. Types are checked twice: here, where an error
/// can name the parameter and the value, and by the compiler (CompileRequest::parameter_types), since a signature is
/// read from text.
class KernelBinding {
 public:
  /// UsageError(not_implemented) naming a parameter of a type that no call can give: packs, references, structs.
  explicit KernelBinding(KernelSignature signature);

  const KernelSignature& signature() const noexcept { return signature_; }

  /// What goes to one pointer parameter.
  struct Pointer {
    int tensor_index = 0;  ///< as ArgumentTemplate::add_tensor takes it
    DType dtype = DType::f32;
    bool is_absent = false;  ///< an optional input that was left out: a null pointer that says nothing about types
  };
  /// Template arguments and parameters in the kernel's order; source, name and geometry are the caller's to set.
  /// `pointers`: of the pointer parameters, in order. `values`: template and value parameters by name; others are
  /// ignored. Types that no value gives are those of the tensors that point to them, and what is left has its default.
  /// UsageError naming the parameter: value for one that is missing or out of range, type for one of another type.
  KernelLaunch bind(std::span<const Pointer> pointers, const Attributes& values) const;

  /// The types among the template parameters that a call need not give, since a tensor points to them.
  bool is_deduced(const TemplateParameter& parameter) const;
  /// The default of a template or value parameter as a value; monostate where it has none, or one that is no plain
  /// number, boolean or type.
  static AttributeValue fallback_of(const TemplateParameter& parameter);
  static AttributeValue fallback_of(const KernelParameter& parameter);

 private:
  std::vector<TemplateArgument> template_arguments(std::span<const Pointer> pointers, const Attributes& values) const;
  TemplateArgument type_argument(const TemplateParameter& parameter, std::span<const Pointer> pointers,
                                 const Attributes& values) const;
  TemplateArgument number_argument(const TemplateParameter& parameter, const Attributes& values) const;
  /// The template argument that a parameter's type names, or nullptr.
  const TemplateArgument* argument_of(const std::string& type, std::span<const TemplateArgument> arguments) const;
  void add_pointer(const KernelParameter& parameter, const Pointer& pointer,
                   std::span<const TemplateArgument> arguments, KernelLaunch& launch) const;
  void add_value(const KernelParameter& parameter, std::span<const TemplateArgument> arguments,
                 const Attributes& values, KernelLaunch& launch) const;

  KernelSignature signature_;
};

}  // namespace kiln
