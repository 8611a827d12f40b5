// What the sweep does not know of rope: numbers that a person worked out, angles against long double at positions where
// float has lost them, in-place calls, and positions that are none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/sweep_amount.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;

class Rope : public DevicesTest {
 protected:
  static Tensor positions_of(const std::vector<std::int64_t>& values, Device device) {
    return tensor_of(DType::i64, values, device);
  }
};

TEST_F(Rope, QuarterTurnsMovePairs) {
  const struct {
    Attributes attributes;
    std::int64_t pairs;
    std::vector<float> expected;
  } cases[] = {
      {{}, 3, {-4, -5, -6, 1, 2, 3}},
      {{{"interleaved", true}}, 3, {-2, 1, -4, 3, -6, 5}},
      {{{"inverse", true}}, 3, {4, 5, 6, -1, -2, -3}},
      {{{"interleaved", true}, {"inverse", true}}, 3, {2, -1, 4, -3, 6, -5}},
      {{{"rotary_dim", std::int64_t{4}}}, 2, {-3, -4, 1, 2, 5, 6}},
      {{{"rotary_dim", std::int64_t{4}}, {"interleaved", true}}, 2, {-2, 1, -4, 3, 5, 6}},
      {{{"rotary_dim", std::int64_t{2}}}, 1, {-2, 1, 3, 4, 5, 6}},
  };
  for (const Device device : devices_)
    for (const auto& [attributes, pairs, expected] : cases) {
      const std::vector<float> zeros(static_cast<std::size_t>(pairs), 0), ones(static_cast<std::size_t>(pairs), 1);
      const std::vector<Tensor> inputs = {make_f32({1, 1, 6}, {1, 2, 3, 4, 5, 6}, device),
                                          make_f32({1, pairs}, zeros, device), make_f32({1, pairs}, ones, device)};
      EXPECT_EQ(read_f32(dispatch_gpu_op("rope", inputs, attributes)), expected) << pairs << " pairs";
    }
}

TEST_F(Rope, PositionsNameRowsAndWithoutThemRowsServeTokensInOrder) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({3, 1, 2}, {1, 0, 1, 0, 1, 0}, device);
    const Tensor cos = make_f32({4, 1}, {1, 0.5F, 0.25F, 0.125F}, device), sin = make_f32({4, 1}, {0, 2, 3, 4}, device);
    EXPECT_THAT(read_f32(dispatch_gpu_op("rope", {x, cos, sin})), ElementsAre(1, 0, 0.5F, 2, 0.25F, 3));
    EXPECT_THAT(read_f32(dispatch_gpu_op("rope", {x, cos, sin, positions_of({3, 0, 2}, device)})),
                ElementsAre(0.125F, 4, 1, 0, 0.25F, 3));
  }
}

/// Of pair `pair` in one position, as transformers' _compute_default_rope_parameters, _compute_linear_scaling_rope_
/// parameters and _compute_llama3_parameters have it.
long double frequency_of(const Attributes& attributes, int pair, int pairs) {
  const auto number = [&](const char* name, double fallback) -> long double {
    return attributes.find(name) != nullptr ? attributes.get_double(name) : fallback;
  };
  const std::string scaling = attributes.find("scaling") != nullptr ? attributes.get_string("scaling") : "none";
  const long double frequency = std::pow(number("base", 10000), -static_cast<long double>(pair) / pairs);
  const long double factor = number("factor", 1);
  if (scaling != "llama3") return frequency / factor;
  const long double original = number("original_max_position", 8192), low = number("low_freq_factor", 1),
                    high = number("high_freq_factor", 4);
  const long double wavelength = 2 * std::numbers::pi_v<long double> / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / factor;
  const long double smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// An angle of position * frequency in float is off by half a radian at a position of 2^23. What is expected is computed
// in long double, since in double an angle of 2^31 is off by 2^-22.
TEST_F(Rope, AnglesAreRightFarOut) {
  constexpr int kPairs = 64;
  const Attributes llama3 = {{"scaling", std::string("llama3")}, {"base", 500000.0}, {"factor", 8.0}};
  const Attributes cases[] = {{},
                              {{"base", 500000.0}},
                              {{"base", 1e7}},
                              {{"scaling", std::string("linear")}, {"factor", 3.0}},
                              llama3,
                              {{"scaling", std::string("llama3")},
                               {"factor", 32.0},
                               {"low_freq_factor", 2.0},
                               {"high_freq_factor", 8.0},
                               {"original_max_position", std::int64_t{4096}}}};
  std::vector<std::int64_t> positions = {
      0, 1, 2, 7, 1000, 8191, 131071, 999'983, 1'000'000, 1'048'577, 16'777'217, (std::int64_t{1} << 31) - 1};
  std::mt19937_64 random(11);
  while (positions.size() < 600) positions.push_back(static_cast<std::int64_t>(random() % 2'000'000));
  const auto count = static_cast<std::int64_t>(positions.size());
  std::vector<float> ones_and_zeros;
  for (std::int64_t token = 0; token < count; ++token)
    for (int i = 0; i < 2 * kPairs; ++i) ones_and_zeros.push_back(i < kPairs ? 1 : 0);
  double worst = 0;
  for (const Device device : devices_)
    for (const Attributes& attributes : cases) {
      const std::vector<float> got = read_f32(dispatch_gpu_op(
          "rope", {make_f32({count, 1, 2 * kPairs}, ones_and_zeros, device), {}, {}, positions_of(positions, device)},
          attributes));
      for (std::size_t token = 0; token < positions.size(); ++token)
        for (int pair = 0; pair < kPairs; ++pair) {
          const long double angle = static_cast<long double>(positions[token]) * frequency_of(attributes, pair, kPairs);
          const auto* row = &got[token * 2 * kPairs + static_cast<std::size_t>(pair)];
          const auto error = static_cast<double>(
              std::max(std::abs(row[0] - std::cos(angle)), std::abs(row[kPairs] - std::sin(angle))));
          EXPECT_LE(error, 0x1p-23) << "position " << positions[token] << ", pair " << pair;
          worst = std::max(worst, error);
        }
    }
  RecordProperty("worst_error_in_hundredths_of_2_to_the_minus_24", static_cast<int>(worst * 0x1p24 * 100));
  EXPECT_GT(worst, 0);
}

TEST_F(Rope, WithoutPositionsTokensStandInOrderInEveryRequest) {
  const Example given{{{DType::f32, {2, 3, 40, 2, 16}}}, {}};
  for (const Device device : devices_) {
    const DrawnCall drawn(Registry::process().get("rope"), given, 3);
    std::vector<std::int64_t> in_order(40);
    for (std::size_t t = 0; t < in_order.size(); ++t) in_order[t] = static_cast<std::int64_t>(t);
    std::vector<Tensor> inputs = drawn.on(device);
    const std::vector<float> without = read_f32(dispatch_gpu_op("rope", inputs));
    inputs.resize(3);
    inputs.push_back(positions_of(in_order, device));
    EXPECT_EQ(read_f32(dispatch_gpu_op("rope", inputs)), without);
  }
}

// Elements of a pair are far from one another, or neighbours that one access moves: either way all are read before one
// of them is written. Strides are those of [B, T, H, D], and of [B, H, T, D] with heads and tokens exchanged.
TEST_F(Rope, OutputsMayBeTheInput) {
  constexpr std::int64_t kTokens = 37, kHeads = 5, kDim = 64;
  const Dims shape{2, kTokens, kHeads, kDim};
  const Dims strides[] = {contiguous_strides(shape), {kTokens * kHeads * kDim, kDim, kTokens * kDim, 1}};
  for (const Device device : devices_)
    for (const DType dtype : one_drawn<DType>({DType::f32, DType::bf16}))
      for (const bool interleaved : {false, true})
        for (const std::int64_t rotary_dim : {64, 24})
          for (const Dims& strided : strides) {
            const Attributes attributes = {{"interleaved", interleaved}, {"rotary_dim", rotary_dim}};
            const DrawnCall drawn(Registry::process().get("rope"), {{{dtype, shape}}, {}}, 5);
            const Tensor memory = to_device(drawn.tensors[0], device), elsewhere = empty(shape, dtype, device);
            const auto viewed = [&](const Tensor& tensor) {
              TensorView view = tensor.view();
              view.strides = strided;
              return Tensor(view, tensor.owner());
            };
            const std::vector<Tensor> x = {viewed(memory)}, other = {viewed(elsewhere)};
            dispatch_gpu_op("rope", x, attributes, {.outputs = other});
            EXPECT_NE(values_of<std::uint8_t>(elsewhere), values_of<std::uint8_t>(memory));
            dispatch_gpu_op("rope", x, attributes, {.outputs = x});
            EXPECT_EQ(values_of<std::uint8_t>(elsewhere), values_of<std::uint8_t>(memory))
                << name(dtype) << (interleaved ? " interleaved " : " halves ") << rotary_dim;
          }
}

TEST_F(Rope, TurningBackGivesWhatWasThere) {
  for (const Device device : devices_)
    for (const bool interleaved : {false, true}) {
      const DrawnCall drawn(Registry::process().get("rope"), {{{DType::f32, {50, 3, 32}}}, {}}, 9);
      const std::vector<Tensor> x = drawn.on(device);
      const Tensor there = dispatch_gpu_op("rope", x, {{"interleaved", interleaved}});
      const std::vector<float> back =
          read_f32(dispatch_gpu_op("rope", {there}, {{"interleaved", interleaved}, {"inverse", true}}));
      const std::vector<float> before = read_f32(x[0]);
      EXPECT_NE(read_f32(there), before);
      for (std::size_t i = 0; i < back.size(); ++i) ASSERT_NEAR(back[i], before[i], 4e-6) << i;
    }
}

TEST_F(Rope, PositionsThatAreNoneTurnToZero) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({4, 1, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, device);
    const Tensor cos = make_f32({2, 1}, {1, 1}, device), sin = make_f32({2, 1}, {0, 0}, device);
    const Attributes attributes = {{"rotary_dim", std::int64_t{2}}};
    EXPECT_THAT(
        read_f32(dispatch_gpu_op("rope", {x, cos, sin, positions_of({-1, 1, 2, INT64_MIN}, device)}, attributes)),
        ElementsAre(0, 0, 3, 4, 5, 6, 0, 0, 9, 0, 0, 12));
    EXPECT_THAT(read_f32(dispatch_gpu_op(
                    "rope", {x, {}, {}, positions_of({-1, 0, std::int64_t{1} << 31, INT64_MAX}, device)}, attributes)),
                ElementsAre(0, 0, 3, 4, 5, 6, 0, 0, 9, 0, 0, 12));
    const Tensor no_rows = make_f32({0, 1}, {}, device);
    EXPECT_THAT(
        read_f32(dispatch_gpu_op("rope", {x, no_rows, no_rows, positions_of({0, 1, -1, 5}, device)}, attributes)),
        ElementsAre(0, 0, 3, 0, 0, 6, 0, 0, 9, 0, 0, 12));
  }
}

/// As programs of GPUs have them: several tokens in a tile, and heads on their way at once.
Config tiles_of_tokens() {
  Config config;
  for (const auto& [tunable, value] :
       std::vector<std::pair<std::string, std::int64_t>>{{"HEADS", 4}, {"TOKENS", 8}, {"BLOCK_T", 4}, {"IN_FLIGHT", 2}})
    config.set(tunable, value);
  return config;
}

TEST_F(Rope, TilesOfSeveralTokensAreRight) {
  if (devices_[0].is_cuda()) GTEST_SKIP() << "they are what a GPU has by default";
  const OpSpec& spec = Registry::process().get("rope");
  const Config config = tiles_of_tokens();
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 30; ++i) {
    const Example example = spec.random_example(random);
    const OpCase made(spec, example, devices_[0], random());
    const std::vector<Tensor> results =
        dispatch_gpu_op_all("rope", made.inputs(), example.attributes, {.config = &config});
    EXPECT_EQ(made.difference(results, Stream::default_of(devices_[0])), "") << to_string(example.inputs[0].shape);
  }
}

// Of a tile each row is another of the tables', which lie each in its own way, and some of no table at all.
TEST_F(Rope, RowsAreLookedUpWhereverTablesLie) {
  constexpr std::int64_t kTokens = 11, kRows = 30, kPairs = 4;
  const Config config = tiles_of_tokens();
  std::vector<float> wide, dense, sines;
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t i = 0; i < 3 * kPairs; ++i) {
      wide.push_back(static_cast<float>(100 * row + i));
      if (i < kPairs) dense.push_back(wide.back());
      if (i < kPairs) sines.push_back(static_cast<float>(7 * row - i));
    }
  for (const Device device : devices_) {
    const Tensor memory = make_f32({kRows, 3 * kPairs}, wide, device);
    TensorView view = memory.view();
    view.shape = {kRows, kPairs};
    const Tensor cos = make_f32({kRows, kPairs}, dense, device), sin = make_f32({kRows, kPairs}, sines, device);
    const Tensor positions = positions_of({29, 0, -1, 3, 3, 30, 17, 1, 2, std::int64_t{1} << 40, 5}, device);
    const Tensor x = make_f32({kTokens, 1, 2 * kPairs},
                              std::vector<float>(static_cast<std::size_t>(kTokens * 2 * kPairs), 1), device);
    const std::vector<float> expected = read_f32(dispatch_gpu_op("rope", {x, cos, sin, positions}));
    EXPECT_EQ(expected[0], 2900 - 203);
    EXPECT_EQ(expected[16], 0);
    const DispatchOptions options{.config = device.is_cuda() ? nullptr : &config};
    EXPECT_EQ(read_f32(dispatch_gpu_op("rope", {x, Tensor(view, memory.owner()), sin, positions}, {}, options)),
              expected);
    EXPECT_EQ(read_f32(dispatch_gpu_op("rope", {x, {}, {}, positions}, {}, options)),
              read_f32(dispatch_gpu_op("rope", {x, {}, {}, positions})));
  }
}

TEST_F(Rope, ComputedAnglesOfTilesHaveNoneToo) {
  const Config config = tiles_of_tokens();
  for (const Device device : devices_) {
    const Tensor x = make_f32({5, 1, 2}, std::vector<float>(10, 1), device);
    const std::vector<float> got =
        read_f32(dispatch_gpu_op("rope", {x, {}, {}, positions_of({0, -1, 0, std::int64_t{1} << 31, 0}, device)}, {},
                                 {.config = device.is_cuda() ? nullptr : &config}));
    EXPECT_THAT(got, ElementsAre(1, 1, 0, 0, 1, 1, 0, 0, 1, 1));
  }
}

}  // namespace
}  // namespace kiln::test
