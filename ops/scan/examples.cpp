#include "ops/common/random_shape.hpp"
#include "ops/scan/scan_call.hpp"

namespace kiln::scan {
std::vector<Example> make_examples() {
  const auto dim = [](std::int64_t axis) { return Attributes{{"dim", axis}}; };
  return {
      {{{DType::f32, {64, 1000}}}, dim(-1)},
      {{{DType::f32, {1000, 64}}}, dim(0)},
      {{{DType::bf16, {7, 5000}}}, dim(1)},
      {{{DType::f32, {5, 129, 33}}}, dim(1)},
      {{{DType::f32, {}}}, dim(0)},
      {{{DType::f32, {0, 3}}}, dim(0)},
      {{{DType::i32, {40, 50}}}, dim(0)},
      {{{DType::u8, {40, 50}}}, {{"dim", std::int64_t{1}}, {"dtype", DType::f16}}, {{0, 3}}},
      {{{DType::f32, {3, 200'000}}}, dim(1), {{0, 1}}},
      {{{DType::i32, {200'000, 3}}}, dim(0)},
  };
}

Example random_example(const OpRow& row, std::mt19937_64& random) {
  const DType in = common::one_of(kAllDTypes, random);
  Example example;
  DType out = is_floating(in) ? in : DType::i64;
  if (random() % 3 == 0) {
    do out = common::one_of(kAllDTypes, random);
    while (out == DType::bool_);
    example.attributes.set("dtype", out);
  }
  const bool adds = row.neutral == 0;
  // Products, and sums in the narrowest floats, leave their dtype's range in long lines.
  const bool stays_short = is_floating(out) && (!adds || is_fp8(out));
  const bool is_long = !stays_short && random() % 24 == 0 && out != DType::f16;
  const std::int64_t most = stays_short ? 300 : is_long ? 1'000'000 : 50'000;
  example.inputs = {{in, common::random_shape({.most_elements = most, .has_long_axis = is_long}, random)}};
  example.attributes.set("dim", common::random_axis(example.inputs[0].shape.size(), random));

  // Long sums of both signs would be small beside their partial sums' errors; products of floats stay near 1.
  InputRange range{0, 1};
  const bool is_signed = in != DType::bool_ && info(in).is_signed;
  if (!is_floating(out) && in != DType::bool_)
    range = {is_signed ? -4. : 0., 4};
  else if (!adds && is_floating(in))
    range = {0.9, 1.1};
  else if (is_signed && num_elements(example.inputs[0].shape) <= 1000)
    range = {-1, 1};
  example.ranges = {range};
  return example;
}

}  // namespace kiln::scan
