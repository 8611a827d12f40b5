#include "ops/attention/number_types.hpp"

#include <fmt/format.h>

#include <string>
#include <variant>

#include "core/errors.hpp"

namespace kiln::attention {
namespace {

/// Whether numbers of `type` hold what products of `products` have, or less.
bool holds_no_more(DType type, DType products) {
  if (type == DType::bf16) return true;
  return products == DType::f32 ? type == DType::f16 || type == DType::f32 : type == products;
}

std::string_view out_types(DType products) {
  switch (products) {
    case DType::f32:
      return "f32, f16 or bf16";
    case DType::f16:
      return "f16 or bf16";
    default:
      return "bf16";
  }
}

}  // namespace

void check_key_types(std::string_view op, const KeyTypes& names, const TensorView& q, const TensorView& k,
                     const TensorView& v) {
  if (!is_fp8(k.dtype) && k.dtype != q.dtype)
    throw_type_error(fmt::format("op '{}': input '{}' is {}, expected {}fp8e4m3 or fp8e5m2; cast it", op, names.keys,
                                 name(k.dtype), is_fp8(q.dtype) ? "" : fmt::format("{}, as 'q' is, ", name(q.dtype))));
  if (v.dtype != k.dtype)
    throw_type_error(fmt::format("op '{}': input '{}' is {}, expected {}, as '{}' is; cast it", op, names.values,
                                 name(v.dtype), name(k.dtype), names.keys));
}

DType product_dtype(DType q) {
  return is_fp8(q) ? DType::f16 : q;
}

DType out_dtype(std::string_view op, const Attributes& attributes, DType q) {
  const AttributeValue& value = *attributes.find("out_dtype");
  if (std::holds_alternative<std::monostate>(value)) return is_fp8(q) ? DType::bf16 : q;
  const DType* const type = std::get_if<DType>(&value);
  if (type == nullptr || !holds_no_more(*type, product_dtype(q)))
    throw_type_error(fmt::format(
        "op '{}': attribute 'out_dtype' is {}, expected {}, or None for {}: where 'q' is {}, results hold no more", op,
        to_string(value), out_types(product_dtype(q)), is_fp8(q) ? "bf16" : "q's dtype", name(q)));
  return *type;
}

AttributeSpec out_dtype_spec() {
  return {"out_dtype", {}, false, "f32, f16 or bf16, which hold no more than q does; None: q's, or bf16 of fp8"};
}

}  // namespace kiln::attention
