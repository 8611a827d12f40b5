// Every op against its reference: all dtypes, shapes around the sizes that tiles have, layouts of every kind, random
// valid configs, on every target there is. The everyday run takes a few dtypes of each op; KILN_SWEEP says how much
// (tests/support/sweep_amount.hpp), and KILN_TEST_SEED repeats a run.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "registry/plan/registry.hpp"
#include "tests/registry/op_sweep.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

/// Each dtype compiles kernels of its own, so that the everyday run takes three.
std::vector<DType> swept_dtypes(const OpSpec& spec, std::mt19937_64& random) {
  return swept<DType>({spec.dtypes.begin(), spec.dtypes.end()}, 3, random);
}

/// Calls of the op's own making until there were enough and every dtype was among them. The rarest, an i32 c of matmul,
/// is in one of 45: kMostDrawn of them lack a dtype only where the op never draws it.
void sweep_random_examples(Sweep& sweep, const OpSpec& spec) {
  constexpr int kMostDrawn = 10'000;
  const int least = random_calls(12, 16);
  std::mt19937_64& random = sweep.random();
  const std::vector<DType> swept = swept_dtypes(spec, random);
  std::set<DType> unseen(swept.begin(), swept.end());
  for (int i = 0; (i < least || !unseen.empty()) && i < kMostDrawn && !sweep.done(); ++i) {
    const Example example = random_call(spec, random);
    if (i >= least && std::none_of(example.inputs.begin(), example.inputs.end(),
                                   [&](const TensorMeta& meta) { return unseen.contains(meta.dtype); }))
      continue;
    for (const TensorMeta& meta : example.inputs) unseen.erase(meta.dtype);
    Case test{
        .inputs = example.inputs,
        .attributes = example.attributes,
        .ranges = example.ranges,
        .layouts = random() % 4 != 0 ? Layouts::random : Layouts::dense,
        .may_repeat = spec.name != "prod",  // one element many times over leaves the range, whatever brings it back
        .random_config = random() % 3 == 0,
        .special_values = random() % 3 == 0,
        .in_place = spec.aliasing != Aliasing::none && random() % 6 == 0,
        .pinned = random() % 2 == 0};
    if (test.layouts != Layouts::dense && sweep.run(test)) continue;
    test.layouts = Layouts::dense;  // an op may ask for rows that are dense
    EXPECT_TRUE(sweep.run(test)) << "op " << spec.name << " refuses a call of its own random_example";
  }
  EXPECT_TRUE(unseen.empty() || spec.inputs.empty() || sweep.done())
      << "op " << spec.name << " lists dtype " << name(*unseen.begin()) << ", but its random_example never uses it";
}

/// The example with the dtype of its last input replaced by `dtype`, wherever that occurs (a condition stays boolean),
/// and one shape for all inputs.
std::vector<TensorMeta> retyped(const Example& example, DType dtype) {
  std::vector<TensorMeta> inputs = example.inputs;
  if (inputs.empty()) return inputs;
  const DType replaced = inputs.back().dtype;
  for (TensorMeta& meta : inputs)
    if (meta.dtype == replaced) meta.dtype = dtype;
  return inputs;
}

std::int64_t random_extent(std::mt19937_64& random) {
  constexpr std::int64_t kExtents[] = {1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257};
  return kExtents[random() % std::size(kExtents)];
}

/// A shape of at most about 20000 elements; sometimes empty.
Dims random_shape(std::mt19937_64& random) {
  Dims shape;
  std::int64_t elements = 1;
  const auto rank = static_cast<int>(random() % 5);
  for (int axis = 0; axis < rank; ++axis) {
    std::int64_t extent = random_extent(random);
    while (elements * extent > 20000) extent = extent / 2 + (extent == 1 ? 1 : 0);
    if (random() % 40 == 0) extent = 0;
    elements *= std::max<std::int64_t>(extent, 1);
    shape.push_back(extent);
  }
  return shape;
}

class RegistrySweep : public ::testing::TestWithParam<std::string> {};

TEST_P(RegistrySweep, AgreesWithItsReference) {
  const OpSpec& spec = Registry::process().get(GetParam());
  ASSERT_TRUE(spec.reference) << "op " << spec.name << " has no reference";
  ASSERT_TRUE(spec.tolerance) << "op " << spec.name << " has no tolerance";
  ASSERT_FALSE(spec.examples.empty()) << "op " << spec.name << " has no examples";
  const std::vector<Device> devices = available_devices();
  if (devices.empty())
    GTEST_SKIP() << "no target: " << compiler_problem(DeviceType::cpu) << "; " << device_problem(DeviceType::cuda);
  const std::uint64_t seed = sweep_seed();
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(seed));

  for (const Device device : devices) {
    Sweep sweep(spec, device, seed);
    for (const Example& example : spec.examples) {
      std::vector<TensorMeta> inputs = example.inputs;
      std::int64_t elements = 0;
      for (const TensorMeta& meta : inputs) elements = std::max(elements, num_elements(meta.shape));
      if (elements > 1'000'000 && !full_sweep()) continue;
      EXPECT_TRUE(sweep.run({.inputs = inputs, .attributes = example.attributes, .ranges = example.ranges}))
          << "op " << spec.name << " refuses its own example";
    }

    if (spec.random_example) {
      sweep_random_examples(sweep, spec);
      sweep.report(seed);
      continue;
    }

    // One shape for all inputs: the contiguous kernel at sizes around its blocks, for every dtype.
    const std::vector<DType> dtypes = swept_dtypes(spec, sweep.random());
    for (const DType dtype : dtypes) {
      bool accepted = false;
      for (const std::int64_t size : {0, 1, 2, 31, 64, 97, 127, 128, 129, 255, 257, 1009, 4096, 4097}) {
        if (sweep.done()) break;
        const Example& example = spec.examples[sweep.random()() % spec.examples.size()];
        std::vector<TensorMeta> inputs = retyped(example, dtype);
        for (TensorMeta& meta : inputs) meta.shape = Dims{size};
        accepted |= sweep.run({.inputs = inputs, .attributes = example.attributes, .special_values = size % 2 == 1});
      }
      // A dtype that only one input may have, beside the others of an example.
      for (const Example& example : spec.examples)
        for (std::size_t i = 0; i < example.inputs.size() && !accepted; ++i) {
          std::vector<TensorMeta> inputs = example.inputs;
          inputs[i].dtype = dtype;
          accepted = sweep.run({.inputs = inputs, .attributes = example.attributes});
        }
      EXPECT_TRUE(accepted || sweep.done())
          << "op " << spec.name << " lists dtype " << name(dtype) << ", but refuses it";
    }

    const int random_cases = random_calls(6, 10);
    for (int i = 0; i < random_cases && !sweep.done(); ++i) {
      std::mt19937_64& random = sweep.random();
      const Example& example = spec.examples[random() % spec.examples.size()];
      const std::vector<TensorMeta> original = example.inputs;
      std::vector<TensorMeta> inputs =
          random() % 2 == 0 ? original : retyped(example, dtypes[random() % dtypes.size()]);
      const Dims shape = random_shape(random);
      for (TensorMeta& meta : inputs)
        meta.shape = inputs.size() > 1 && random() % 2 == 0 ? broadcast_operand(shape, random) : shape;
      Case test{.inputs = inputs,
                .attributes = example.attributes,
                .layouts = random() % 4 != 0 ? Layouts::random : Layouts::dense,
                .random_config = random() % 3 == 0,
                .special_values = random() % 3 == 0,
                .in_place = spec.aliasing != Aliasing::none && random() % 6 == 0};
      if (!sweep.run(test)) {  // an op with a shape rule of its own: its example's shapes in other layouts
        test.inputs = original;
        EXPECT_TRUE(sweep.run(test)) << "op " << spec.name << " refuses its own example";
      }
    }
    sweep.report(seed);
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, RegistrySweep, ::testing::ValuesIn(Registry::process().names()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(name.begin(), name.end(), [](char letter) { return letter == '.' || letter == ':'; }, '_');
  return name;
});

TEST(RegistrySweepCoverage, HasOps) {
  EXPECT_GE(Registry::process().names().size(), 60u);
}

}  // namespace
}  // namespace kiln::test
