// The places of extrema in tensors that lie in memory in another order than the places count in: the first of equals in
// row-major order, as the reference finds it.

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/validation.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/planned_call.hpp"
#include "tests/support/sweep_amount.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

/// A view of memory that holds `memory` elements.
struct MemoryLayout {
  const char* name;
  Dims shape, strides;
  std::int64_t memory, offset = 0;
};

const MemoryLayout kMemoryLayouts[] = {
    {"a tall transposed matrix", {5303, 7}, {1, 5303}, 7 * 5303},
    {"a wide transposed matrix", {7, 5303}, {1, 7}, 7 * 5303},
    {"a small transposed matrix", {3, 4}, {1, 3}, 12},
    {"a transposed matrix of several chunks", {1001, 400}, {1, 1001}, 1001 * 400},
    {"rows with gaps", {300, 60}, {70, 1}, 300 * 70},
    {"columns with gaps", {60, 300}, {2, 140}, 300 * 140},
    {"axes reversed", {12, 33, 50}, {1, 12, 12 * 33}, 12 * 33 * 50},
    {"the last axis outermost", {12, 33, 50}, {33, 1, 12 * 33}, 12 * 33 * 50},
    {"channels innermost", {6, 20, 9, 11}, {20 * 99, 1, 11 * 20, 20}, 6 * 20 * 99},
    {"five axes reversed", {4, 5, 6, 7, 8}, {1, 4, 20, 120, 840}, 4 * 5 * 6 * 7 * 8},
    {"rows from the last on", {40, 50}, {-50, 1}, 2000, 39 * 50},
    {"columns from the last on, transposed", {50, 40}, {-1, 50}, 2000, 49},
    {"rows that are one", {30, 40}, {0, 1}, 40},
    {"columns that are one", {40, 300}, {1, 0}, 40},
};

std::vector<MemoryLayout> swept_layouts(std::size_t few, std::mt19937_64& random) {
  return swept_by_halves<MemoryLayout>({std::begin(kMemoryLayouts), std::end(kMemoryLayouts)}, few, random);
}

struct Contents {
  const char* name;
  bool are_finite;
  /// Of element i of memory.
  double (*make)(std::int64_t i, std::mt19937_64& random);
};

const Contents kContents[] = {
    {"a hundred numbers", true, [](std::int64_t, std::mt19937_64& random) { return double(random() % 100); }},
    {"three numbers", true, [](std::int64_t, std::mt19937_64& random) { return double(random() % 3); }},
    {"one number", true, [](std::int64_t, std::mt19937_64&) { return 5.0; }},
    {"a few NaNs", false,
     [](std::int64_t i, std::mt19937_64& random) {
       return random() % 97 == 0 || i == 11 ? std::nan("") : double(random() % 9);
     }},
    {"NaN", false, [](std::int64_t, std::mt19937_64&) { return std::nan(""); }},
    {"-inf and NaN", false, [](std::int64_t i, std::mt19937_64&) { return i % 5 == 3 ? std::nan("") : -HUGE_VAL; }},
    {"-inf", false, [](std::int64_t, std::mt19937_64&) { return -HUGE_VAL; }},
    {"inf", false, [](std::int64_t, std::mt19937_64&) { return HUGE_VAL; }},
};

/// The places that the reference finds: the last output.
std::vector<std::int64_t> expected_places(const OpSpec& spec, const Tensor& x, const Attributes& attributes) {
  const Attributes complete = complete_attributes(spec, attributes);
  const TensorView input = x;
  std::vector<Tensor> outputs;
  for (const TensorMeta& meta : spec.infer(std::span(&input, 1), complete))
    outputs.push_back(empty(meta.shape, meta.dtype, Device::cpu()));
  const std::vector<TensorView> views(outputs.begin(), outputs.end());
  spec.reference({std::span(&input, 1), views, complete});
  return values_of<std::int64_t>(outputs.back());
}

class ReductionPlaces : public DevicesTest {
 protected:
  void expect_first_of_equals(DType dtype, const MemoryLayout& layout, const Contents& contents) const {
    std::mt19937_64 random(17);
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < layout.memory; ++i) numbers.push_back(contents.make(i, random));
    const Tensor memory = tensor_of_numbers(dtype, numbers);
    const auto x_on = [&](Device device) {
      return view_of(to_device(memory, device), layout.shape, layout.strides, layout.offset);
    };
    for (int dim = -1; dim < layout.shape.size(); ++dim)
      for (const char* op : {"argmax", dim < 0 ? "argmin" : "min"}) {  // without `dim` min finds no place
        Attributes attributes;
        if (dim >= 0) attributes.set("dim", std::int64_t{dim});
        const auto expected = expected_places(Registry::process().get(op), x_on(Device::cpu()), attributes);
        for (const Device device : devices_) {
          const Tensor x = x_on(device);
          EXPECT_EQ(values_of<std::int64_t>(dispatch_gpu_op_all(op, std::span(&x, 1), attributes).back()), expected)
              << op << " of " << layout.name << " along " << dim << " of " << contents.name << ", " << name(dtype)
              << " on " << to_string(device);
        }
      }
  }
};

TEST_F(ReductionPlaces, AreThoseOfTheFirstOfEqualsInAnyLayout) {
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(sweep_seed()));
  std::mt19937_64 random(sweep_seed());
  for (const DType dtype : swept_by_halves<DType>({DType::f32, DType::bf16, DType::i32, DType::i8}, 2, random))
    for (const MemoryLayout& layout : swept_layouts(4, random))
      for (const Contents& contents : kContents)
        if (contents.are_finite || is_floating(dtype)) expect_first_of_equals(dtype, layout, contents);
}

TEST_F(ReductionPlaces, BeyondTheReachOf32BitsAreFound) {
  // Columns that are one: 2^32 places and more over 2^17 bytes.
  constexpr std::int64_t kRows = 1 << 17, kColumns = (1 << 15) + 1;
  std::vector<double> numbers(kRows, 1.0);
  numbers[kRows - 1] = 2.0;
  const Tensor memory = tensor_of_numbers(DType::i8, numbers);
  for (const Device device : devices_) {
    const Tensor x = view_of(to_device(memory, device), {kRows, kColumns}, {1, 0});
    EXPECT_EQ(values_of<std::int64_t>(dispatch_gpu_op("argmax", {x})).at(0), (kRows - 1) * kColumns);
  }
}

TEST(ReductionPlacesNvrtc, KernelsOfEveryLayoutDoNotSpill) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(sweep_seed()));
  std::mt19937_64 random(sweep_seed());
  for (const DType dtype : swept<DType>({DType::bf16, DType::i32, DType::f64}, 1, random))
    for (const MemoryLayout& layout : swept_layouts(3, random)) {
      const PlannedCall call("argmax", {shaped(dtype, layout.shape, layout.strides, Device::cuda(0))});
      for (const CompileRequest& request : call.requests(kHopper)) {
        SCOPED_TRACE(layout.name);
        expect_no_spills(request);
      }
    }
}

}  // namespace
}  // namespace kiln::test
