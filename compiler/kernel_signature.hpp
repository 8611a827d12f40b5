#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/kernel_source.hpp"
#include "core/dtype.hpp"

namespace kiln {

struct TemplateParameter {
  enum class Kind : std::uint8_t {
    type,     ///< typename T
    integer,  ///< int, tl::int64_t, auto
    boolean,
    other,  ///< packs, templates, concepts, enumerations: nothing that a call can give
  };
  Kind kind = Kind::other;
  std::string name;      ///< empty where the kernel gives none
  std::string fallback;  ///< the default's text; empty: none
};

struct KernelParameter {
  std::string name;        ///< "arg3" where the kernel gives none
  std::string type;        ///< as declared, without top-level const and __restrict__: "const T*", "tl::int64_t"
  std::string value_type;  ///< what it points to, else what it is, without const: "T"
  bool is_pointer = false;
  bool is_const = false;  ///< a pointer that is only read through
  std::string fallback;   ///< the default's text; empty: none
};

/// What a kernel declares.
struct KernelSignature {
  std::string kernel;  ///< qualified: "mine::square_sum"
  std::vector<TemplateParameter> template_parameters;
  std::vector<KernelParameter> parameters;
  int line = 0;  ///< of its name
};

/// Reads `template <...> KILN_KERNEL void NAME(...)` from a kernel file, its headers aside. Text is all it looks at: no
/// macro is expanded and no condition evaluated, so what it says must be held against the compiler
/// (CompileRequest::parameter_types). `kernel` may leave out namespaces where that is clear, and be empty where the
/// file has one kernel. UsageError(value) listing the kernels there are; for a kernel that is no template; for two of
/// one name; for a parameter without a type.
KernelSignature kernel_signature(const KernelSource& source, std::string_view kernel = {});

/// The dtype of a type that kernels spell out: "float", "tl::int64_t", "unsigned long", "kiln::tl::bfloat16". nullopt
/// for any other, names that the file defines included.
std::optional<DType> spelled_dtype(std::string_view type);
/// As it is spelled where no namespace is open: "kiln::tl::int64_t" for "tl::int64_t", "unsigned long" for itself,
/// which is another type of the same dtype. Empty where spelled_dtype gives nothing.
std::string full_spelling(std::string_view type);

}  // namespace kiln
