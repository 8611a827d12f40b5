#include "registry/inspection/benchmarked_call.hpp"

#include <cstdint>
#include <vector>

#include "core/errors.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using BenchmarkedCallTest = DevicesTest;

Call call_of(std::string_view op, const std::vector<TensorView>& inputs, const Attributes& attributes = {}) {
  return validated_call(Registry::process().get(op), inputs, attributes);
}

TEST_F(BenchmarkedCallTest, TimesAnOpAndSaysWhatRan) {
  for (const Device device : devices_) {
    const Tensor x = make_f32({1000}, std::vector<float>(1000, 1.0f), device);
    const std::vector<TensorView> inputs{x, x};
    const BenchmarkedCall call(call_of("add", inputs), {}, default_measuring_policy(device));
    EXPECT_EQ(call.report().variant, "contiguous");
    const std::vector<double> samples_us = call.samples_us(7);
    EXPECT_EQ(samples_us.size(), 7U);
    for (const double sample_us : samples_us) EXPECT_GT(sample_us, 0);
  }
}

TEST_F(BenchmarkedCallTest, LeavesInputsAloneThatTheOpChanges) {
  for (const Device device : devices_) {
    const Tensor key = make_f32({1, 1, 2}, {10, 20}, device);
    const Tensor cache = make_f32({1, 2, 1, 2}, {1, 2, 3, 4}, device);
    const Tensor other_cache = make_f32({1, 2, 1, 2}, {1, 2, 3, 4}, device);
    std::int64_t slot = 1;
    const Tensor slots = to_device(dense_view(&slot, DType::i64, {1}), device);
    const std::vector<TensorView> inputs{key, key, cache, other_cache, slots};
    BenchmarkedCall(call_of("kv_append", inputs), {}, default_measuring_policy(device)).samples_us(3);
    BenchmarkedReference(call_of("kv_append", inputs)).samples_us(2);
    EXPECT_THAT(read_f32(cache), ElementsAre(1, 2, 3, 4));
    dispatch_gpu_op("kv_append", {key, key, cache, other_cache, slots});
    EXPECT_THAT(read_f32(cache), ElementsAre(1, 2, 10, 20));
  }
}

TEST_F(BenchmarkedCallTest, ReferencesRunOnTheCpu) {
  const Tensor x = make_f32({100}, std::vector<float>(100, 1.0f), devices_.front());
  const std::vector<TensorView> inputs{x};
  EXPECT_EQ(BenchmarkedReference(call_of("neg", inputs)).samples_us(3).size(), 3U);
  const std::vector<TensorView> none;
  EXPECT_THROW(BenchmarkedReference(call_of("neg", none)), UsageError);
}

TEST_F(BenchmarkedCallTest, LeavesAloneWhatLiesAtAddresses) {
  for (const Device device : devices_) {
    const Tensor key = make_f32({1, 1, 1, 2}, {10, 20}, device);
    const Tensor cache = make_f32({1, 2, 1, 2}, {1, 2, 3, 4}, device);
    const std::int64_t address = reinterpret_cast<std::intptr_t>(cache.data());
    const auto table = [&] { return make_integers(DType::i64, {1}, {address}, device); };
    const Tensor keys = table(), values = table();
    const Tensor slots = make_integers(DType::i64, {1}, {1}, device);
    const std::vector<TensorView> inputs{key, key, keys, values, slots};
    const Attributes attributes{{"num_blocks", std::int64_t{1}}, {"page", std::int64_t{2}}};
    const BenchmarkedCall call(call_of("kv_append_layers", inputs, attributes), {}, default_measuring_policy(device));
    call.samples_us(3);
    EXPECT_EQ(call.skipped().value().share(), 0);
    BenchmarkedReference(call_of("kv_append_layers", inputs, attributes)).samples_us(2);
    EXPECT_THAT(read_f32(cache), ElementsAre(1, 2, 3, 4));
    dispatch_gpu_op("kv_append_layers", {key, key, keys, values, slots}, attributes);
    EXPECT_THAT(read_f32(cache), ElementsAre(1, 2, 10, 20));
  }
}

}  // namespace
}  // namespace kiln::test
