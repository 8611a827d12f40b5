#pragma once

#include <string_view>

#include "ops/op_spec.hpp"

namespace kiln::attention {

// Of which types the numbers of a call are. Each check throws UsageError(type), naming `op`.

/// What the ops take for q; keys and values have its type or one of 8 bits.
inline constexpr DType kQueryTypes[] = {DType::f32, DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2};

/// Keys, and values beside them, of queries of a type: named after their inputs.
struct KeyTypes {
  std::string_view keys, values;
};
void check_key_types(std::string_view op, const KeyTypes& names, const TensorView& q, const TensorView& k,
                     const TensorView& v);

/// What weights are rounded to before they are multiplied by values: q's type, or f16, which holds any number of 8
/// bits.
DType product_dtype(DType q);

/// Attribute 'out_dtype': none but a type that holds no more than products do. None: q's, or bf16 where q has 8 bits.
DType out_dtype(std::string_view op, const Attributes& attributes, DType q);
AttributeSpec out_dtype_spec();

}  // namespace kiln::attention
