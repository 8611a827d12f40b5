#pragma once

#include <string>
#include <string_view>

#include "ops/op_spec.hpp"

namespace kiln::common {

/// What a pointer points to, as C++ spells it where no namespace is open.
class ElementType {
 public:
  ElementType(DType dtype) : name_(info(dtype).tl_name) {}
  ElementType(const char* name) : name_(name) {}
  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
};

/// The name of T as the host's compiler spells it: "kiln::ops::ScanIteration", "long long int". Kernels and the host
/// that fills their parameters in include one definition, so that a name is a type.
template <typename T>
constexpr std::string_view type_name() {
  // "... [with T = kiln::ops::RowIteration<7>; std::string_view = ...]" of GCC, "... [T = ...]" of Clang.
  constexpr std::string_view kFunction = __PRETTY_FUNCTION__;
  constexpr std::size_t kBegin = kFunction.find("T = ") + 4;
  return kFunction.substr(kBegin, kFunction.find_first_of(";]", kBegin) - kBegin);
}

/// Adds parameters to a launch in the kernel's order, each with the type that the kernel is to declare: a kernel that
/// declares another does not compile (KernelLaunch::parameter_types).
class KernelParameters {
 public:
  explicit KernelParameters(KernelLaunch& launch) : launch_(launch) {}

  /// A pointer to tensor `tensor` of the call (outputs first, then inputs) that the kernel writes or only reads; -1 is
  /// a null pointer.
  KernelParameters& written(int tensor, const ElementType& type);
  KernelParameters& read(int tensor, const ElementType& type);
  /// A pointer to scratch memory of the plan.
  KernelParameters& written_workspace(int workspace, const ElementType& type);
  KernelParameters& read_workspace(int workspace, const ElementType& type);
  KernelParameters& tensor_map(const TensorMap& map);
  /// A parameter passed by value.
  template <typename T>
  KernelParameters& value(const T& value) {
    launch_.arguments.add_value(value);
    return declare(std::string(type_name<T>()));
  }

 private:
  KernelParameters& declare(std::string type);
  KernelParameters& add_tensor(int tensor, std::string type);
  KernelLaunch& launch_;
};

}  // namespace kiln::common
