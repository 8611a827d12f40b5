#include <algorithm>
#include <iterator>

#include "ops/scan/scan_call.hpp"

namespace kiln::scan {
namespace {

/// A shape of at most `most` elements; extents are 0, 1, primes, powers of two and their neighbours, now and then
/// large.
Dims random_shape(std::int64_t most, std::mt19937_64& random) {
  constexpr std::int64_t kExtents[] = {1,  2,  3,  5,   7,   8,   13,  16,   17,   31,   32,   33,
                                       63, 64, 65, 127, 128, 129, 257, 1009, 2048, 2049, 4097, 30011};
  Dims shape;
  std::int64_t elements = 1;
  const auto rank = static_cast<int>(random() % 6);
  for (int axis = 0; axis < rank; ++axis) {
    std::int64_t extent = kExtents[random() % std::size(kExtents)];
    if (most > 100'000 && random() % 2 == 0) extent = most / 2 + static_cast<std::int64_t>(random() % 1000);
    while (elements * extent > most) extent = (extent + 1) / 2;
    if (random() % 30 == 0) extent = 0;
    elements *= std::max<std::int64_t>(extent, 1);
    shape.push_back(extent);
  }
  return shape;
}

}  // namespace

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
  const DType in = kAllDTypes[random() % kAllDTypes.size()];
  Example example;
  DType out = is_floating(in) ? in : DType::i64;
  if (random() % 3 == 0) {
    do out = kAllDTypes[random() % kAllDTypes.size()];
    while (out == DType::bool_);
    example.attributes.set("dtype", out);
  }
  const bool adds = row.neutral == 0;
  // Products, and sums in the narrowest floats, leave their dtype's range in long lines.
  const bool stays_short = is_floating(out) && (!adds || is_fp8(out));
  const std::int64_t most = stays_short ? 300 : random() % 24 == 0 && out != DType::f16 ? 1'000'000 : 50'000;
  example.inputs = {{in, random_shape(most, random)}};
  const auto axes = static_cast<std::int64_t>(std::max(example.inputs[0].shape.size(), 1));
  example.attributes.set("dim", static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * axes)) - axes);

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
