#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

enum class DType : std::uint8_t { f64, f32, f16, bf16, fp8e4m3, fp8e5m2, i64, i32, i16, i8, u64, u32, u16, u8, bool_ };

inline constexpr std::array kAllDTypes = {DType::f64,     DType::f32, DType::f16, DType::bf16, DType::fp8e4m3,
                                          DType::fp8e5m2, DType::i64, DType::i32, DType::i16,  DType::i8,
                                          DType::u64,     DType::u32, DType::u16, DType::u8,   DType::bool_};

/// Promotion category, in torch's order: a higher category wins over any width of a lower one.
enum class DTypeCategory : std::uint8_t { boolean, integer, floating };

struct DTypeInfo {
  std::string_view name;     ///< "f32", "bool": the spelling of the CLI, of keys and of messages
  std::string_view tl_name;  ///< type name inside kernels: "float", "kiln::tl::float16", "kiln::tl::int64_t"
  std::int32_t itemsize_bytes;
  DTypeCategory category;
  bool is_signed;
};

const DTypeInfo& info(DType dtype) noexcept;
inline std::string_view name(DType dtype) noexcept {
  return info(dtype).name;
}
inline std::int64_t itemsize_bytes(DType dtype) noexcept {
  return info(dtype).itemsize_bytes;
}
/// The unsigned integer of so many bytes (1, 2, 4 or 8): what moves an element's bits whatever they mean.
DType unsigned_dtype(std::int64_t itemsize_bytes);
inline bool is_floating(DType dtype) noexcept {
  return info(dtype).category == DTypeCategory::floating;
}
inline bool is_integer(DType dtype) noexcept {
  return info(dtype).category == DTypeCategory::integer;
}
inline bool is_fp8(DType dtype) noexcept {
  return dtype == DType::fp8e4m3 || dtype == DType::fp8e5m2;
}

/// Accepts Kiln's names and torch/NumPy's aliases ("float32", "half", "bfloat16", "float8_e4m3fn", "int64", "uint8",
/// "bool"). nullopt when unknown.
std::optional<DType> find_dtype(std::string_view name) noexcept;
/// As find_dtype; throws UsageError(value) naming the nearest dtypes.
DType parse_dtype(std::string_view name);

/// torch.promote_types. UsageError(type) for pairs torch refuses: fp8 with any other dtype, u16/u32/u64 with bool or
/// another integer.
DType promote_types(DType a, DType b);

/// One operand of torch.result_type.
struct PromotionOperand {
  DType dtype;
  bool is_zero_dim =
      false;  ///< zero-dim tensors only count where their category is higher than that of the dimensioned ones
};
/// torch.result_type over tensors (source: torch's tensor attributes documentation, "type promotion").
DType result_type(std::span<const PromotionOperand> operands);

/// The type arithmetic on `dtype` runs in: f32 for half and fp8 types, itself otherwise.
DType compute_dtype(DType dtype) noexcept;

}  // namespace kiln
