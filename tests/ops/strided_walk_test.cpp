#include <algorithm>
#include <numeric>
#include <random>

#include "ops/common/strided_walk.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

using Offsets = std::vector<std::int64_t>;  // the output's, then the inputs'

TensorView strided_view(DType dtype, const Dims& shape, const Dims& strides) {
  return shaped(dtype, shape, strides);
}

std::string variant_of(std::string_view op, const std::vector<TensorView>& inputs, const TensorView& output,
                       const Target& target) {
  const OpSpec& spec = spec_of(op);
  const Attributes attributes = with_defaults(spec, op == "fill" ? Attributes{{"value", 1.0}} : Attributes());
  for (const Variant& variant : spec.variants)
    if (variant.serves({inputs, std::span(&output, 1), attributes}, target)) return variant.name;
  return "none";
}

/// Which elements meet, by the definition of broadcasting: sorted by the output's offset.
std::vector<Offsets> expected_visits(const TensorView& output, const std::vector<TensorView>& inputs) {
  std::vector<Offsets> visits;
  const std::int64_t numel = output.numel();
  for (std::int64_t linear = 0; linear < numel; ++linear) {
    Offsets offsets(inputs.size() + 1);
    std::int64_t rest = linear;
    for (int axis = output.ndim() - 1; axis >= 0; --axis) {
      const std::int64_t coordinate = rest % output.shape[axis];
      rest /= output.shape[axis];
      offsets[0] += coordinate * output.strides[axis];
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const int own = axis - (output.ndim() - inputs[i].ndim());
        if (own >= 0 && inputs[i].shape[own] != 1) offsets[i + 1] += coordinate * inputs[i].strides[own];
      }
    }
    visits.push_back(offsets);
  }
  std::sort(visits.begin(), visits.end());
  return visits;
}

std::int64_t argument(const KernelLaunch& plan, std::size_t index) {
  return std::get<std::int64_t>(plan.template_arguments.at(index));
}

std::vector<Offsets> walk_contiguous(const KernelLaunch& plan, void** parameters, std::size_t operands) {
  const std::int64_t block = argument(plan, 2);
  const long long n = *static_cast<long long*>(parameters[1]);
  std::vector<Offsets> visits;
  for (std::int64_t program = 0; program < plan.geometry.grid[0]; ++program)
    for (std::int64_t i = program * block; i < (program + 1) * block; ++i)
      if (i < n) visits.emplace_back(operands, i);
  return visits;
}

std::vector<Offsets> walk_strided(const KernelLaunch& plan, void** parameters, std::size_t operands) {
  const std::int64_t kinds = argument(plan, 5);
  const auto& it = *static_cast<ops::StridedIteration*>(parameters[1]);
  const std::int64_t block_m = it.block_rows, block_n = it.block_columns;
  EXPECT_EQ(block_m % argument(plan, 2), 0) << "programs are whole tiles";
  EXPECT_EQ(block_n % argument(plan, 3), 0) << "programs are whole tiles";
  std::vector<Offsets> visits;
  for (std::int64_t program = 0; program < plan.geometry.grid[0]; ++program) {
    const std::int64_t column_block = program % it.column_blocks;
    const std::int64_t row_block = program / it.column_blocks % it.row_blocks;
    std::int64_t rest = program / (it.column_blocks * it.row_blocks);
    Offsets outer(operands);
    for (int d = 0; d < it.num_outer_dims; ++d) {
      for (std::size_t o = 0; o < operands; ++o) outer[o] += rest % it.outer_extents[d] * it.outer_strides[o][d];
      rest /= it.outer_extents[d];
    }
    for (std::int64_t row = row_block * block_m; row < std::min<std::int64_t>(it.rows, (row_block + 1) * block_m);
         ++row)
      for (std::int64_t column = column_block * block_n;
           column < std::min<std::int64_t>(it.columns, (column_block + 1) * block_n); ++column) {
        Offsets offsets = outer;
        for (std::size_t o = 0; o < operands; ++o) {
          const std::int64_t kind = kinds >> (2 * o) & 3;
          const std::int64_t stride =
              kind == ops::kStrideZero ? 0 : (kind == ops::kStrideOne ? 1 : it.column_strides[o]);
          offsets[o] += row * it.row_strides[o] + column * stride;
        }
        visits.push_back(offsets);
      }
  }
  return visits;
}

std::vector<Offsets> walk_indexed(const KernelLaunch& plan, void** parameters, std::size_t operands) {
  const std::int64_t block = argument(plan, 2);
  const auto& it = *static_cast<ops::IndexedIteration*>(parameters[1]);
  std::vector<Offsets> visits;
  for (std::int64_t i = 0; i < plan.geometry.grid[0] * block; ++i) {
    if (i >= it.n) continue;
    auto rest = static_cast<std::uint32_t>(i);
    Offsets offsets(operands);
    for (int d = 0; d < it.num_dims; ++d) {
      const auto high = static_cast<std::uint32_t>(std::uint64_t{rest} * it.multipliers[d] >> 32);
      const std::uint32_t quotient = (high + rest) >> it.shifts[d];
      for (std::size_t o = 0; o < operands; ++o)
        offsets[o] += std::int64_t{rest - quotient * it.extents[d]} * it.strides[o][d];
      rest = quotient;
    }
    visits.push_back(offsets);
  }
  return visits;
}

/// Plans every variant that serves (and the strided and indexed ones regardless), walks it as the kernels do, and
/// compares.
void check_coverage(std::string_view op, const std::vector<TensorView>& inputs, const TensorView& output,
                    const Target& target, std::mt19937_64& random, const std::string& trace) {
  const OpSpec& spec = spec_of(op);
  const Attributes attributes = with_defaults(spec, {});
  const OpCall call{inputs, std::span(&output, 1), attributes};
  const std::vector<Offsets> expected = expected_visits(output, inputs);
  for (const Variant& variant : spec.variants) {
    if (variant.name == "contiguous" && !variant.serves(call, target)) continue;
    const ConfigSpace space = variant.space(target);
    const std::vector<Config> configs = space.enumerate();
    for (const Config& config : {variant.default_config(call, target), configs[random() % configs.size()]}) {
      ASSERT_NO_THROW(space.validate(config)) << trace;
      const LaunchPlan launches = variant.plan(call, config, target);
      ASSERT_EQ(launches.launches.size(), 1U);
      const KernelLaunch& plan = launches.launches[0];
      std::vector<void*> tensors(inputs.size() + 1);
      ASSERT_EQ(plan.arguments.size(), static_cast<int>(inputs.size()) + 3);
      std::vector<void*> parameters(static_cast<std::size_t>(plan.arguments.size()));
      plan.arguments.bind(tensors.data(), parameters.data());
      EXPECT_EQ(parameters[0], &tensors[0]);
      for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(parameters[i + 2], &tensors[i + 1]);
      std::vector<Offsets> visits = variant.name == "contiguous"
                                        ? walk_contiguous(plan, parameters.data(), tensors.size())
                                    : variant.name == "strided" ? walk_strided(plan, parameters.data(), tensors.size())
                                                                : walk_indexed(plan, parameters.data(), tensors.size());
      std::sort(visits.begin(), visits.end());
      ASSERT_EQ(visits, expected) << variant.name << " " << to_string(config) << " " << trace;
    }
  }
}

/// Free of overlap: a random order of dimensions, some with gaps, some running backwards.
Dims random_strides(const Dims& shape, bool may_expand, std::mt19937_64& random) {
  std::vector<int> order(static_cast<std::size_t>(shape.size()));
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  Dims strides = shape;
  std::int64_t next = 1;
  for (const int axis : order) {
    if (random() % 5 == 0) next *= 1 + static_cast<std::int64_t>(random() % 3);
    strides[axis] = random() % 8 == 0 ? -next : next;
    if (may_expand && random() % 8 == 0)
      strides[axis] = 0;
    else
      next *= std::max<std::int64_t>(shape[axis], 1);
  }
  return strides;
}

TEST(ElementwiseIteration, EveryElementIsVisitedOnceWithItsPartners) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 400; ++round) {
    const int rank = static_cast<int>(random() % 6);
    Dims shape;
    for (int axis = 0; axis < rank; ++axis)
      shape.push_back(random() % 40 == 0 ? 0 : 1 + static_cast<std::int64_t>(random() % (rank < 3 ? 50 : 6)));
    const std::size_t num_inputs = 1 + random() % 3;
    std::vector<TensorView> inputs;
    for (std::size_t i = 0; i < num_inputs; ++i) {
      // The first input has the output's full shape; the others drop leading dimensions and shrink some to 1.
      Dims own;
      const int dropped = i == 0 || rank == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(rank + 1));
      for (int axis = dropped; axis < rank; ++axis) own.push_back(i != 0 && random() % 3 == 0 ? 1 : shape[axis]);
      inputs.push_back(strided_view(DType::f32, own, random_strides(own, true, random)));
    }
    const char* op = num_inputs == 1 ? "exp" : (num_inputs == 2 ? "add" : "mul_add");
    const TensorView output = strided_view(DType::f32, shape, random_strides(shape, false, random));
    std::string trace = "seed " + std::to_string(seed) + " round " + std::to_string(round) + " out " + describe(output);
    for (const TensorView& input : inputs) trace += " in " + describe(input);
    check_coverage(op, inputs, output, round % 2 == 0 ? kCpu : kHopper, random, trace);
    if (HasFatalFailure()) return;
  }
}

TEST(ElementwiseIteration, ContiguousNeedsOneDenseOrder) {
  const auto f32 = [](const Dims& shape) { return shaped(DType::f32, shape); };
  const auto column_major = [](const Dims& shape) { return strided_view(DType::f32, shape, Dims{1, shape[0]}); };
  for (const Target& target : {kCpu, kHopper}) {
    EXPECT_EQ(variant_of("add", {f32({64, 100}), f32({64, 100})}, f32({64, 100}), target), "contiguous");
    EXPECT_EQ(variant_of("add", {f32({}), f32({})}, f32({}), target), "contiguous");
    EXPECT_EQ(variant_of("add", {f32({1, 1}), f32({})}, f32({1, 1}), target), "contiguous");
    EXPECT_EQ(variant_of("add", {f32({0, 9}), f32({9})}, f32({0, 9}), target), "contiguous");
    EXPECT_EQ(variant_of("add", {column_major({64, 100}), column_major({64, 100})}, column_major({64, 100}), target),
              "contiguous");
    // A dimension of extent 1 may have any stride.
    EXPECT_EQ(variant_of("exp", {strided_view(DType::f32, {64, 1, 100}, {100, 7, 1})}, f32({64, 1, 100}), target),
              "contiguous");
    EXPECT_EQ(variant_of("add", {column_major({64, 100}), f32({64, 100})}, f32({64, 100}), target), "strided");
    EXPECT_EQ(variant_of("add", {f32({64, 128}), f32({128})}, f32({64, 128}), target), "strided");
    EXPECT_EQ(variant_of("add", {f32({64, 128}), f32({64, 1})}, f32({64, 128}), target), "strided");
    EXPECT_EQ(variant_of("add", {f32({64, 100}), f32({})}, f32({64, 100}), target), "strided");
    EXPECT_EQ(variant_of("exp", {strided_view(DType::f32, {100}, {2})}, f32({100}), target), "strided");
    EXPECT_EQ(variant_of("exp", {strided_view(DType::f32, {100}, {-1})}, f32({100}), target), "strided");
    EXPECT_EQ(variant_of("exp", {strided_view(DType::f32, {64, 100}, {128, 1})}, f32({64, 100}), target), "strided");
    // Two inner dimensions that would fill a tile with three or six elements.
    EXPECT_EQ(variant_of("exp", {strided_view(DType::f32, {1000, 3, 2}, {13, 4, 1})}, f32({1000, 3, 2}), target),
              "indexed");
  }
}

TEST(ElementwiseIteration, BroadcastsOverRowsThatFillNoTileAreIndexedOnAGpu) {
  const auto f32 = [](const Dims& shape) { return shaped(DType::f32, shape); };
  for (const Dims& shape : {Dims{64, 100}, Dims{64, 33}, Dims{64, 3}, Dims{64, 1001}}) {
    SCOPED_TRACE(to_string(shape));
    for (const Dims& other : {Dims{shape[1]}, Dims{64, 1}}) {
      EXPECT_EQ(variant_of("add", {f32(shape), f32(other)}, f32(shape), kHopper), "indexed");
      EXPECT_EQ(variant_of("add", {f32(shape), f32(other)}, f32(shape), kCpu), "strided");
    }
    EXPECT_EQ(variant_of("add", {f32({64, 1}), f32({shape[1]})}, f32(shape), kHopper), "indexed");
    // What is large and lies elsewhere is read in rows.
    const TensorView slice = strided_view(DType::f32, shape, {shape[1] + 5, 1});
    EXPECT_EQ(variant_of("add", {slice, f32({shape[1]})}, f32(shape), kHopper), "strided");
    EXPECT_EQ(variant_of("exp", {slice}, f32(shape), kHopper), "strided");
  }
}

TEST(ElementwiseIteration, FillLooksAtItsOutputAlone) {
  const TensorView transposed = strided_view(DType::f32, {64, 100}, {1, 64});
  EXPECT_EQ(variant_of("fill", {transposed}, shaped(DType::f32, {64, 100}), kCpu), "contiguous");
}

TEST(ElementwiseIteration, DimensionsThatAllOperandsRunThroughMerge) {
  const TensorView row = shaped(DType::f32, {5, 6});
  const TensorView full = shaped(DType::f32, {3, 4, 5, 6});
  const TensorView inputs[] = {full, row};
  const common::StridedWalk iteration = common::strided_walk(full, inputs);
  ASSERT_EQ(iteration.dims.size(), 2U);
  EXPECT_EQ(iteration.dims[0].extent, 30);
  EXPECT_EQ(iteration.dims[1].extent, 12);
  EXPECT_EQ(iteration.dims[0].strides, (std::array<std::int64_t, 4>{1, 1, 1, 0}));
  EXPECT_EQ(iteration.dims[1].strides, (std::array<std::int64_t, 4>{30, 30, 0, 0}));
  EXPECT_EQ(common::stride_kinds(iteration), 1 | 1 << 2 | 1 << 4);
}

TEST(ElementwiseIteration, ATransposedInputsDenseDimensionBecomesTheRows) {
  // (a, b, c) read as (c, b, a): rows must be the output's outermost dimension.
  const TensorView output = shaped(DType::f32, {40, 50, 60});
  const TensorView input = strided_view(DType::f32, {40, 50, 60}, {1, 40, 2000});
  const common::StridedWalk iteration = common::strided_walk(output, std::span(&input, 1));
  ASSERT_EQ(iteration.dims.size(), 3U);
  EXPECT_EQ(common::row_dim(iteration), 2);
  const ops::StridedIteration strided = common::strided_iteration(iteration, 32, 32);
  EXPECT_EQ(strided.rows, 40);
  EXPECT_EQ(strided.columns, 60);
  EXPECT_EQ(strided.num_outer_dims, 1);
  EXPECT_EQ(strided.outer_extents[0], 50);
  EXPECT_EQ(strided.row_strides[1], 1);
}

TEST(ElementwiseIteration, OutputsThatOverlapThemselvesAreRefused) {
  const TensorView input = shaped(DType::f32, {4, 6});
  for (const Dims& strides : {Dims{0, 1}, Dims{6, 0}, Dims{1, 1}, Dims{3, 1}, Dims{-3, 1}}) {
    const TensorView output = strided_view(DType::f32, {4, 6}, strides);
    SCOPED_TRACE("strides " + to_string(strides));
    EXPECT_THAT(value_error([&] { variant_of("exp", {input}, output, kCpu); }), HasSubstr("overlap"));
  }
  EXPECT_NO_THROW(variant_of("exp", {input}, strided_view(DType::f32, {4, 6}, {-6, -1}), kCpu));
  EXPECT_NO_THROW(variant_of("exp", {shaped(DType::f32, {0, 6})}, strided_view(DType::f32, {0, 6}, {0, 0}), kCpu));
}

TEST(ElementwiseIteration, QuotientsByMultiplicationAreExact) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t extent = 2 + static_cast<std::int64_t>(random() >> (34 + random() % 29));
    if (extent > 0x7fffffff) continue;
    common::StridedWalk iteration{1, extent, {{extent, {1, 0, 0, 0}}}};
    const ops::IndexedIteration indexed = common::indexed_iteration(iteration);
    for (const std::uint32_t n : {0U, 1U, static_cast<std::uint32_t>(extent - 1), static_cast<std::uint32_t>(extent),
                                  0x7fffffffU, static_cast<std::uint32_t>(random() & 0x7fffffff)}) {
      const auto high = static_cast<std::uint32_t>(std::uint64_t{n} * indexed.multipliers[0] >> 32);
      ASSERT_EQ((high + n) >> indexed.shifts[0], n / static_cast<std::uint32_t>(extent))
          << n << " / " << extent << " seed " << seed;
    }
  }
}

}  // namespace
}  // namespace kiln::test
