// Reductions that are split over programs: the same input gives the same bits every time, and what crosses chunks (the
// first of equals, NaN) comes out as it would without them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

constexpr int kRepeats = 1000;

class SplitReduction : public DevicesTest {};

std::vector<float> normal_values(std::size_t count) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<std::byte> bytes_of(const std::vector<Tensor>& tensors) {
  std::vector<std::byte> bytes;
  for (const Tensor& tensor : tensors) {
    const Tensor host = to_device(tensor, Device::cpu());
    const auto* first = host.data_as<std::byte>();
    bytes.insert(bytes.end(), first, first + host.numel() * itemsize_bytes(host.dtype()));
  }
  return bytes;
}

TEST_F(SplitReduction, RepeatsGiveIdenticalBits) {
  struct Call {
    const char* op;
    Attributes attributes;
  };
  const Attributes first_dim = {{"dim", std::int64_t{0}}};
  const Call calls[] = {{"sum", {}},
                        {"sum", first_dim},
                        {"mean", {}},
                        {"prod", {}},
                        {"var", {}},
                        {"var", first_dim},
                        {"norm", {}},
                        {"logsumexp", {}},
                        {"argmax", {}},
                        {"max", first_dim},
                        {"amin", {}},
                        {"any", {}},
                        {"logsumexp", first_dim}};
  const std::vector<float> values = normal_values(9000 * 100);
  for (const Device device : devices_) {
    const Tensor x = make_f32({9000, 100}, values, device);
    for (const Call& call : calls) {
      SCOPED_TRACE(std::string(call.op) + " on " + to_string(device));
      const TensorView view = x.view();
      const ResolvedOp op = resolve(call.op, std::span(&view, 1), call.attributes);
      EXPECT_EQ(op.report().kernels.size(), 2u) << "not split: the test's shape is too small";
      std::vector<Tensor> outputs;
      std::vector<TensorView> output_views;
      for (const TensorMeta& meta : op.outputs()) {
        outputs.push_back(empty(meta.shape, meta.dtype, Stream::default_of(device)));
        output_views.push_back(outputs.back().view());
      }
      std::vector<std::byte> first;
      int different = 0;
      for (int i = 0; i < kRepeats; ++i) {
        op(std::span(&view, 1), output_views, Stream::default_of(device));
        synchronize(Stream::default_of(device));
        const std::vector<std::byte> bytes = bytes_of(outputs);
        if (i == 0)
          first = bytes;
        else
          different += bytes != first;
      }
      EXPECT_EQ(different, 0) << "of " << kRepeats << " repeats";
    }
  }
}

std::int64_t place_of(std::string_view op, const Tensor& x) {
  const Tensor place = to_device(dispatch_gpu_op(op, {x}), Device::cpu());
  return *place.data_as<std::int64_t>();
}

TEST_F(SplitReduction, FindsTheFirstOfEqualsAndTheFirstNan) {
  constexpr std::size_t kCount = 1'000'003;
  for (const Device device : devices_) {
    std::vector<float> values(kCount, 1.0F);
    EXPECT_EQ(place_of("argmax", make_f32(values, device)), 0);
    values[400'001] = values[400'002] = values[900'000] = 2.0F;
    EXPECT_EQ(place_of("argmax", make_f32(values, device)), 400'001);
    EXPECT_EQ(place_of("argmin", make_f32(values, device)), 0);
    values[700'007] = values[950'000] = std::nanf("");
    EXPECT_EQ(place_of("argmax", make_f32(values, device)), 700'007);
    EXPECT_EQ(place_of("argmin", make_f32(values, device)), 700'007);
    std::vector<float> least(kCount, -INFINITY);
    EXPECT_EQ(place_of("argmax", make_f32(least, device)), 0);
    // A view that starts between two packets: its first tile is not a whole one.
    EXPECT_EQ(place_of("argmax", view_of(make_f32(values, device), {600'000}, {1}, 3)), 399'998);
  }
}

TEST_F(SplitReduction, VarianceOfNumbersFarFromZeroDoesNotCancel) {
  std::vector<float> values = normal_values(1'000'000);
  double mean = 0, squares = 0;
  for (float& value : values) mean += (value += 3000.0F);
  mean /= static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  const double expected = squares / static_cast<double>(values.size() - 1);
  for (const Device device : devices_)
    EXPECT_NEAR(read_f32(dispatch_gpu_op("var", {make_f32(values, device)}))[0], expected, 1e-3 * expected);
}

TEST_F(SplitReduction, SumsOfManyEqualNumbersLoseNothing) {
  // One running f32 sum of 0.1 would be off in the third digit.
  for (const Device device : devices_) {
    const std::vector<float> values(10'000'000, 0.1F);
    EXPECT_NEAR(read_f32(dispatch_gpu_op("sum", {make_f32(values, device)}))[0], 1e7 * 0.1F, 10.0);
  }
}

TEST_F(SplitReduction, RefusesOutputsThatOverlap) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({4, 4}, normal_values(16), device);
    const Attributes rows = {{"dim", std::int64_t{1}}};
    const Tensor inside[] = {view_of(x, {4}, {4})};
    EXPECT_THROW(dispatch_gpu_op("sum", {x}, rows, {.outputs = inside}), UsageError);
    const Tensor one[] = {view_of(make_f32({0}, device), {4}, {0})};
    EXPECT_THROW(dispatch_gpu_op("sum", {x}, rows, {.outputs = one}), UsageError);
  }
}

}  // namespace
}  // namespace kiln::test
