#include "ops/reduction/reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/errors.hpp"
#include "ops/common/attribute_reader.hpp"

namespace kiln::reduction {
namespace {

bool is_extremum(Kind kind) {
  return kind == Kind::amax || kind == Kind::amin || kind == Kind::max || kind == Kind::min || finds_index(kind);
}

bool is_float_only(Kind kind) {
  return kind == Kind::mean || kind == Kind::var || kind == Kind::std || kind == Kind::norm || kind == Kind::logsumexp;
}

DType accumulator_of(Kind kind, DType dtype) {
  if (kind == Kind::any || kind == Kind::all || is_extremum(kind) || is_floating(dtype)) return compute_dtype(dtype);
  return DType::i64;
}

DType requested_dtype(const OpRow& row, DType input, const Attributes& attributes) {
  if (takes_dtype(row.kind))
    if (const auto dtype = dtype_of(row.name, "dtype", *attributes.find("dtype"))) return *dtype;
  const bool widens = (row.kind == Kind::sum || row.kind == Kind::prod) && !is_floating(input);
  return widens ? DType::i64 : input;
}

void check_one_axis(const OpRow& row, const Attributes& attributes) {
  const AttributeValue& dim = *attributes.find("dim");
  if (std::holds_alternative<std::vector<std::int64_t>>(dim))
    throw_type_error(
        fmt::format("op '{}': attribute 'dim' is {}, expected one integer or None", row.name, to_string(dim)));
}

}  // namespace

const std::vector<OpRow>& op_table() {
  // Never destroyed: threads may still dispatch while the process exits.
  static const std::vector<OpRow>& table = *new std::vector<OpRow>{
      {"sum", Kind::sum,
       "sum of the elements; integers and bool give i64, wrapping; of nothing, 0. Narrow floats accumulate in f32"},
      {"mean", Kind::mean, "sum / count of floats, or of `dtype`; of nothing, NaN"},
      {"prod", Kind::prod, "product of the elements; integers and bool give i64, wrapping; of nothing, 1"},
      {"amax", Kind::amax, "largest element; NaN wins"},
      {"amin", Kind::amin, "smallest element; NaN wins"},
      {"max", Kind::max,
       "largest element; NaN wins. With `dim` also its place along that dimension (i64), the first of equals"},
      {"min", Kind::min,
       "smallest element; NaN wins. With `dim` also its place along that dimension (i64), the first of equals"},
      {"argmax", Kind::argmax,
       "place (i64) of the largest element along `dim`, or in row-major order of all; NaN wins, the first of equals"},
      {"argmin", Kind::argmin,
       "place (i64) of the smallest element along `dim`, or in row-major order of all; NaN wins, the first of equals"},
      {"any", Kind::any, "whether an element is not 0 (NaN is not); of nothing, false"},
      {"all", Kind::all, "whether no element is 0; of nothing, true"},
      {"var", Kind::var,
       "sum((x - mean)^2) / max(0, count - correction) of floats; of nothing, NaN. Of up to 2^20 elements it is off by "
       "at most 2^-16 of itself (f64: 2^-45) before it is rounded to the output's dtype, however far the mean is from "
       "0; where the reduced dimensions are not one stretch of memory, by 2^-25 (f64: 2^-54) more for each row of it"},
      {"std", Kind::std, "square root of var"},
      {"norm", Kind::norm,
       "sum(|x|^p)^(1/p) of floats; p = 0 counts what is not 0, p = inf and -inf give the largest and smallest |x|; of "
       "nothing, 0, and an error where p is below 0 or infinite"},
      {"logsumexp", Kind::logsumexp, "log(sum(exp(x))) of floats, without overflow; of nothing, -inf"},
  };
  return table;
}

bool finds_index(Kind kind) noexcept {
  return kind == Kind::argmax || kind == Kind::argmin || kind == Kind::max || kind == Kind::min;
}

bool has_index_output(Kind kind, const Attributes& attributes) {
  return (kind == Kind::max || kind == Kind::min) && !attributes.is_none("dim");
}

bool takes_dtype(Kind kind) noexcept {
  return kind == Kind::sum || kind == Kind::mean || kind == Kind::prod || kind == Kind::norm;
}

Reduction resolve(const OpRow& row, const TensorView& input, const Attributes& attributes) {
  Reduction result{};
  result.kind = row.kind;
  if (finds_index(row.kind)) check_one_axis(row, attributes);
  result.axes = axes_of(row.name, "dim", *attributes.find("dim"), input.ndim());
  result.count = 1;
  for (const int axis : result.axes) result.count *= input.shape[axis];
  result.with_index = has_index_output(row.kind, attributes);
  // Without `dim` max is amax: nobody asks for the place.
  if (row.kind == Kind::max && !result.with_index) result.kind = Kind::amax;
  if (row.kind == Kind::min && !result.with_index) result.kind = Kind::amin;

  result.via = requested_dtype(row, input.dtype, attributes);
  if (is_float_only(row.kind) && !is_floating(result.via))
    throw_type_error(
        fmt::format("op '{}' takes floating dtypes, got {}{}", row.name, name(result.via),
                    takes_dtype(row.kind) ? "; give attribute 'dtype' a floating one, or cast first" : "; cast first"));
  result.accumulator = accumulator_of(row.kind, result.via);
  result.out = result.via;
  if (row.kind == Kind::any || row.kind == Kind::all) result.out = DType::bool_;
  if (row.kind == Kind::argmax || row.kind == Kind::argmin) result.out = DType::i64;

  if (row.kind == Kind::norm) {
    result.exponent = attributes.get_double("p");
    if (std::isnan(result.exponent))
      throw_value_error("op 'norm': attribute 'p' is NaN, expected a number, inf or -inf");
  }
  result.divisor = static_cast<double>(result.count);
  if (row.kind == Kind::var || row.kind == Kind::std) {
    const double correction = attributes.get_double("correction");
    if (!std::isfinite(correction))
      throw_value_error(
          fmt::format("op '{}': attribute 'correction' is {}, expected a finite number", row.name, correction));
    result.divisor = std::max(0.0, result.divisor - correction);
  }
  const bool has_no_neutral =
      is_extremum(row.kind) || (row.kind == Kind::norm && (result.exponent < 0 || std::isinf(result.exponent)));
  if (result.count == 0 && has_no_neutral)
    throw_value_error(fmt::format(
        "op '{}': 'x' has shape {} and 'dim' is {}, so there are no elements to reduce, and {} of nothing has no value",
        row.name, to_string(input.shape), to_string(*attributes.find("dim")),
        row.kind == Kind::norm ? fmt::format("norm with p={}", result.exponent) : row.name));
  return result;
}

Dims output_shape(const TensorView& input, std::span<const int> axes, bool keepdim) {
  Dims shape;
  for (int axis = 0; axis < input.ndim(); ++axis) {
    const bool reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (!reduced)
      shape.push_back(input.shape[axis]);
    else if (keepdim)
      shape.push_back(1);
  }
  return shape;
}

}  // namespace kiln::reduction
