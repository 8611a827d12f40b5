#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/attributes.hpp"
#include "ops/elementwise/reference_functions.hpp"
#include "ops/op_spec.hpp"

namespace kiln::elementwise {

/// How an op's output dtype follows from `promoted`, the result_type of its tensors and of the scalars that promote.
enum class DTypeRule {
  arithmetic,  ///< promoted
  to_float,    ///< promoted; f32 where that is an integer or bool
  float_only,  ///< promoted, which must be floating
  bitwise,     ///< promoted, which must be an integer or bool
  comparison,  ///< bool; the scalar `other` is rounded to the promoted dtype first, as torch does
  predicate,   ///< bool
  closeness,   ///< bool; integers are compared as f64
  where,       ///< promoted over all inputs but the first, which must be bool
  cast,        ///< the attribute `dtype`
  fill,        ///< the input's dtype; the input itself is not read
};

/// How near the kernel comes to the correctly rounded result.
enum class Accuracy {
  exact,     ///< one correctly rounded operation, or none
  summed,    ///< a product that a target may round before it is added, so that cancellation leaves an absolute error
  function,  ///< a few units in the last place of the compute dtype
  composed,  ///< several of those, with cancellation
};

/// An attribute that reaches the kernel as a number.
struct ScalarAttribute {
  AttributeSpec spec;     ///< fallback None: an int, float or bool
  int slot = 0;           ///< in ops::Scalars
  bool promotes = false;  ///< takes part in promotion as a Python scalar does in torch
};

/// Slot of the scalar that stands in for the second input.
inline constexpr int kOtherSlot = 3;

/// What an op computes for some attributes: a functor of kernel.hpp and the same thing for one element on the host.
struct Form {
  std::string functor;  ///< without its namespace: "Add"
  ReferenceFunctions reference;
  /// The functor of a GPU's kernels that compute in f32 and whose results have 16 bits or fewer; empty: the same.
  std::string narrow_functor = {};
};

/// One op: each fact once.
struct OpRow {
  std::string name{};
  int arity = 1;
  DTypeRule rule = DTypeRule::arithmetic;
  bool allows_bool = true;  ///< whether the promoted dtype may be bool
  std::string doc{};
  double flops = 1;  ///< per element
  Accuracy accuracy = Accuracy::exact;
  std::vector<Form> forms{};
  std::size_t (*choose_form)(const Attributes&, DType compute) = nullptr;  ///< index into forms; null: always the first
  /// Whether the first form on two tensors is one rounded operation that the tile language has for f16 and bf16
  /// themselves: it then computes in them, with the same bits as in float and fewer instructions.
  bool narrow_arithmetic = false;
  std::vector<ScalarAttribute> scalars{};   ///< `other` of the binary ops is implied
  std::vector<AttributeSpec> attributes{};  ///< those that are not numbers
  std::vector<InputRange> ranges{};
  std::vector<InputRange> integer_ranges{};  ///< see OpSpec
  std::vector<Attributes> examples{};        ///< attributes worth an example, beside the defaults
};

/// The family, one row per op.
const std::vector<OpRow>& op_table();

inline const Form& form_of(const OpRow& row, const Attributes& attributes, DType compute) {
  return row.forms[row.choose_form == nullptr ? 0 : row.choose_form(attributes, compute)];
}
/// Every scalar attribute of the op, `other` included.
std::vector<ScalarAttribute> scalar_attributes(const OpRow& row);
/// "x", "y", "z"; where's condition comes first.
std::string input_name(const OpRow& row, int index);

}  // namespace kiln::elementwise
