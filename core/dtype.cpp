#include "core/dtype.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"

namespace kiln {
namespace {

using enum DTypeCategory;

// In the order of the enumeration.
constexpr std::array<DTypeInfo, kAllDTypes.size()> kInfos = {{
    {"f64", "double", 8, floating, true},
    {"f32", "float", 4, floating, true},
    {"f16", "kiln::tl::float16", 2, floating, true},
    {"bf16", "kiln::tl::bfloat16", 2, floating, true},
    {"fp8e4m3", "kiln::tl::float8e4m3", 1, floating, true},
    {"fp8e5m2", "kiln::tl::float8e5m2", 1, floating, true},
    {"i64", "kiln::tl::int64_t", 8, integer, true},
    {"i32", "kiln::tl::int32_t", 4, integer, true},
    {"i16", "kiln::tl::int16_t", 2, integer, true},
    {"i8", "kiln::tl::int8_t", 1, integer, true},
    {"u64", "kiln::tl::uint64_t", 8, integer, false},
    {"u32", "kiln::tl::uint32_t", 4, integer, false},
    {"u16", "kiln::tl::uint16_t", 2, integer, false},
    {"u8", "kiln::tl::uint8_t", 1, integer, false},
    {"bool", "bool", 1, boolean, false},
}};

struct Alias {
  std::string_view name;
  DType dtype;
};

// Spellings of torch and NumPy.
constexpr Alias kAliases[] = {
    {"float64", DType::f64},
    {"double", DType::f64},
    {"float32", DType::f32},
    {"float", DType::f32},
    {"single", DType::f32},
    {"float16", DType::f16},
    {"half", DType::f16},
    {"fp16", DType::f16},
    {"bfloat16", DType::bf16},
    {"float8_e4m3fn", DType::fp8e4m3},
    {"float8_e5m2", DType::fp8e5m2},
    {"float8e4m3", DType::fp8e4m3},
    {"float8e5m2", DType::fp8e5m2},
    {"int64", DType::i64},
    {"long", DType::i64},
    {"int32", DType::i32},
    {"int", DType::i32},
    {"int16", DType::i16},
    {"short", DType::i16},
    {"int8", DType::i8},
    {"uint64", DType::u64},
    {"uint32", DType::u32},
    {"uint16", DType::u16},
    {"uint8", DType::u8},
    {"bool_", DType::bool_},
};

/// The unsigned types that torch added late and does not promote among integers (u8 is older and does promote).
bool is_wide_unsigned(DType dtype) {
  return dtype == DType::u64 || dtype == DType::u32 || dtype == DType::u16;
}

[[noreturn]] void refuse_promotion(DType a, DType b, std::string_view rule) {
  throw_type_error(fmt::format("dtypes {} and {} have no common dtype: {}; cast one of them", name(a), name(b), rule));
}

DType promote_floats(DType a, DType b) {
  // f16 and bf16 hold different values, so the pair needs f32; otherwise the wider one holds both.
  if (itemsize_bytes(a) == itemsize_bytes(b)) return DType::f32;
  return itemsize_bytes(a) > itemsize_bytes(b) ? a : b;
}

DType promote_integers(DType a, DType b) {
  if (info(a).is_signed == info(b).is_signed) return itemsize_bytes(a) > itemsize_bytes(b) ? a : b;
  // The unsigned one is u8 here; i8 cannot hold it, every wider signed type can.
  const DType with_sign = info(a).is_signed ? a : b;
  return with_sign == DType::i8 ? DType::i16 : with_sign;
}

}  // namespace

const DTypeInfo& info(DType dtype) noexcept {
  return kInfos[static_cast<std::size_t>(dtype)];
}

std::optional<DType> find_dtype(std::string_view name) noexcept {
  for (DType dtype : kAllDTypes)
    if (kiln::name(dtype) == name) return dtype;
  for (const Alias& alias : kAliases)
    if (alias.name == name) return alias.dtype;
  return std::nullopt;
}

DType parse_dtype(std::string_view name) {
  if (const std::optional<DType> dtype = find_dtype(name)) return *dtype;
  std::vector<std::string> known;
  for (DType dtype : kAllDTypes) known.emplace_back(kiln::name(dtype));
  const std::string listed = fmt::format("{}", fmt::join(known, ", "));
  for (const Alias& alias : kAliases) known.emplace_back(alias.name);
  throw_value_error(fmt::format("unknown dtype '{}'{} (dtypes: {})", name, did_you_mean(name, known), listed));
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (is_fp8(a) || is_fp8(b)) refuse_promotion(a, b, "fp8 types combine only with themselves");
  const DTypeCategory category_a = info(a).category;
  const DTypeCategory category_b = info(b).category;
  if (category_a == floating && category_b == floating) return promote_floats(a, b);
  if (category_a == floating || category_b == floating) return category_a == floating ? a : b;
  if (is_wide_unsigned(a) || is_wide_unsigned(b))
    refuse_promotion(a, b, "u16, u32 and u64 combine only with themselves and with floats");
  if (category_a == boolean) return b;
  if (category_b == boolean) return a;
  return promote_integers(a, b);
}

DType result_type(std::span<const PromotionOperand> operands) {
  if (operands.empty()) throw_value_error("result_type needs at least one operand");
  std::optional<DType> dimensioned, zero_dim;
  for (const PromotionOperand& operand : operands) {
    std::optional<DType>& state = operand.is_zero_dim ? zero_dim : dimensioned;
    state = state ? promote_types(*state, operand.dtype) : operand.dtype;
  }
  if (!dimensioned || !zero_dim) return dimensioned ? *dimensioned : *zero_dim;
  if (info(*zero_dim).category > info(*dimensioned).category) return promote_types(*dimensioned, *zero_dim);
  return *dimensioned;
}

DType compute_dtype(DType dtype) noexcept {
  return is_floating(dtype) && itemsize_bytes(dtype) < 4 ? DType::f32 : dtype;
}

DType unsigned_dtype(std::int64_t itemsize_bytes) {
  switch (itemsize_bytes) {
    case 1:
      return DType::u8;
    case 2:
      return DType::u16;
    case 4:
      return DType::u32;
    case 8:
      return DType::u64;
    default:
      throw InternalError("no unsigned integer has " + std::to_string(itemsize_bytes) + " bytes");
  }
}

}  // namespace kiln
