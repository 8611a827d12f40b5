#include "ops/attention/shared_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "core/errors.hpp"

namespace kiln::attention {
namespace {

InputSpec optional_input(std::string name, std::string doc, std::vector<DType> dtypes) {
  InputSpec input{std::move(name), std::move(doc), true};
  input.dtypes = std::move(dtypes);
  return input;
}

double scale_of(std::string_view op, const Attributes& attributes, std::int64_t head_dim) {
  const AttributeValue& value = *attributes.find("scale");
  if (std::holds_alternative<std::monostate>(value)) return 1 / std::sqrt(static_cast<double>(head_dim));
  if (!std::holds_alternative<double>(value) && !std::holds_alternative<std::int64_t>(value))
    throw_type_error(fmt::format("op '{}': attribute 'scale' is {}, expected a number or None (1 / sqrt(head dim))", op,
                                 to_string(value)));
  return number_of_f32(op, attributes, "scale");
}

double softcap_of(std::string_view op, const Attributes& attributes) {
  const double softcap = number_of_f32(op, attributes, "softcap");
  if (softcap < 0)
    throw_value_error(
        fmt::format("op '{}': attribute 'softcap' is {}, expected what scores stay below, or 0 for none", op, softcap));
  return softcap;
}

void check_slopes(std::string_view op, const TensorView& slopes, std::int64_t batch, std::int64_t heads) {
  const Dims each = {heads}, own = {batch, heads};
  if (slopes.shape != each && slopes.shape != own)
    throw_value_error(
        fmt::format("op '{}': input 'alibi_slopes' has shape {}, expected {} or {}, a slope for each head "
                    "of 'q'",
                    op, to_string(slopes.shape), to_string(each), to_string(own)));
}

void check_sinks(std::string_view op, const TensorView& sinks, std::int64_t heads, const TensorView& q) {
  const Dims expected = {heads};
  if (sinks.shape != expected)
    throw_value_error(fmt::format("op '{}': input 'sinks' has shape {}, expected {}, a score for each head of 'q'", op,
                                  to_string(sinks.shape), to_string(expected)));
  if (sinks.dtype != DType::f32 && sinks.dtype != q.dtype)
    throw_type_error(fmt::format("op '{}': input 'sinks' is {}, expected f32 or {}, as 'q' is", op, name(sinks.dtype),
                                 name(q.dtype)));
}

}  // namespace

double number_of_f32(std::string_view op, const Attributes& attributes, std::string_view name) {
  const double value = attributes.get_double(name);
  const float rounded = static_cast<float>(value);
  if (!std::isfinite(rounded))
    throw_value_error(
        fmt::format("op '{}': attribute '{}' is {}, expected a finite number, in f32 too", op, name, value));
  return rounded == 0 ? 0 : value;
}

AttributeSpec scale_spec() {
  return {"scale", {}, false, "of products; None: 1 / sqrt(D)", /*decides_speed=*/false};
}

AttributeSpec window_spec() {
  return {"window", std::vector<std::int64_t>{-1, -1}, false,
          "(left, right): keys that a query sees before and behind its own place; -1: all"};
}

AttributeSpec softcap_spec() {
  return {"softcap", 0.0, false,
          "scores become softcap * tanh(score / softcap), before anything is added; 0: they stay"};
}

AttributeSpec return_lse_spec() {
  return {"return_lse", false, false, "lse is a second output"};
}

InputSpec slopes_spec(std::string_view batch) {
  return optional_input(
      "alibi_slopes", fmt::format("[H] or [{}, H], f32: slope * |key - query's own place| is taken from scores", batch),
      {DType::f32});
}

InputSpec sinks_spec() {
  return optional_input("sinks", "[H], of q's dtype or f32: a score more in each row, of no value",
                        {DType::f32, DType::f16, DType::bf16});
}

std::pair<std::int64_t, std::int64_t> window_of(std::string_view op, const Attributes& attributes) {
  const AttributeValue& value = *attributes.find("window");
  const auto* window = std::get_if<std::vector<std::int64_t>>(&value);
  if (window == nullptr || window->size() != 2)
    throw_type_error(
        fmt::format("op '{}': attribute 'window' is {}, expected two integers, (left, right)", op, to_string(value)));
  if (std::ranges::min(*window) < -1)
    throw_value_error(fmt::format("op '{}': attribute 'window' is {}, expected numbers of keys, or -1 for all of them",
                                  op, to_string(value)));
  return {(*window)[0], (*window)[1]};
}

void check_head_dim(std::string_view op, std::string_view name, std::int64_t dim) {
  if (dim < 1 || dim > kMostHeadDim)
    throw_value_error(
        fmt::format("op '{}': input '{}' has heads of {} numbers, expected 1 to {}", op, name, dim, kMostHeadDim));
}

void check_extent(std::string_view op, std::string_view name, std::string_view what, std::int64_t extent,
                  std::string_view other, std::int64_t expected) {
  if (extent != expected)
    throw_value_error(fmt::format("op '{}': input '{}' has {} {}, expected {}, as '{}' has", op, name, extent, what,
                                  expected, other));
}

void check_groups(std::string_view op, std::string_view keys, std::int64_t heads, std::int64_t key_heads) {
  if (key_heads == 0 ? heads != 0 : heads % key_heads != 0)
    throw_value_error(fmt::format(
        "op '{}': input 'q' has {} heads and '{}' {}; expected a multiple of these, so that as many queries share each",
        op, heads, keys, key_heads));
}

ScoreOptions score_options(std::string_view op, const CallInputs& inputs, const Attributes& attributes,
                           const ScoreShape& shape) {
  const auto scale_of_heads = [&](const NamedInput& input) {
    return HeadScale(op, inputs, input.number, input.name, shape.batch, shape.key_heads);
  };
  const ScoreOptions options{.scale = scale_of(op, attributes, shape.head_dim),
                             .softcap = softcap_of(op, attributes),
                             .returns_lse = attributes.get_bool("return_lse"),
                             .slopes = inputs.find(shape.slopes),
                             .sinks = inputs.find(shape.sinks),
                             .query_scale = scale_of_heads(shape.query_scale),
                             .key_scale = scale_of_heads(shape.key_scale),
                             .value_scale = scale_of_heads(shape.value_scale)};
  if (options.slopes != nullptr) check_slopes(op, *options.slopes, shape.batch, shape.heads);
  if (options.sinks != nullptr) check_sinks(op, *options.sinks, shape.heads, inputs[0]);
  return options;
}

}  // namespace kiln::attention
