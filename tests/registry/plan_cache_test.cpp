#include "registry/plan/plan_cache.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "registry/plan/plan.hpp"

namespace kiln::test {
namespace {

using Words = std::vector<std::uint64_t>;

Words words_of(std::string_view op, const std::vector<TensorView>& inputs, const std::vector<TensorView>& outputs = {},
               const Attributes& attributes = {}, const Config* config = nullptr) {
  std::vector<const TensorView*> input_pointers, output_pointers;
  for (const TensorView& input : inputs) input_pointers.push_back(&input);
  for (const TensorView& output : outputs) output_pointers.push_back(&output);
  PlanKey key;
  key.encode(op, input_pointers, output_pointers, attributes, config);
  return {key.words().begin(), key.words().end()};
}

TensorView view(const Dims& shape, const Dims& strides, DType dtype = DType::f32, Device device = Device::cpu()) {
  return {nullptr, dtype, device, shape, strides};
}

TEST(PlanKeyTest, KnowsTheDeviceOfACallWithoutTensors) {
  const auto words_on = [](Device device) {
    PlanKey key;
    key.encode("uniform", {}, {}, {}, nullptr, TuningPolicy::use, device);
    return std::vector<std::uint64_t>(key.words().begin(), key.words().end());
  };
  EXPECT_NE(words_on(Device::cpu()), words_on(Device::cuda(0)));
  EXPECT_NE(words_on(Device::cuda(0)), words_on(Device::cuda(1)));
}

TEST(PlanKeyTest, TellsApartEverythingThatAPlanDependsOn) {
  const TensorView x = view({4, 3}, {3, 1});
  const Config config{{"BLOCK_SIZE", 64}}, other_config{{"BLOCK_SIZE", 128}};
  const std::vector<Words> keys = {
      words_of("add", {x}),
      words_of("adc", {x}),
      words_of("add", {x, x}),
      words_of("add", {x}, {x}),
      words_of("add", {view({4, 3}, {1, 4})}),
      words_of("add", {view({3, 4}, {3, 1})}),
      words_of("add", {view({4, 3}, {3, 1}, DType::i32)}),
      words_of("add", {view({4, 3}, {3, 1}, DType::f32, Device::cuda(0))}),
      words_of("add", {view({4, 3}, {3, 1}, DType::f32, Device::cuda(1))}),
      words_of("add", {view({4, 3, 1}, {3, 1, 1})}),
      words_of("add", {x}, {}, {{"alpha", 1.0}}),
      words_of("add", {x}, {}, {{"alpha", std::int64_t{1}}}),
      words_of("add", {x}, {}, {{"alpha", true}}),
      words_of("add", {x}, {}, {{"alpha", -0.0}}),
      words_of("add", {x}, {}, {{"alpha", 0.0}}),
      words_of("add", {x}, {}, {{"alpha", std::monostate{}}}),
      words_of("add", {x}, {}, {{"alpha", std::string("1")}}),
      words_of("add", {x}, {}, {{"alpha", DType::f32}}),
      words_of("add", {x}, {}, {{"alpha", std::vector<std::int64_t>{1}}}),
      words_of("add", {x}, {}, {{"alpha", std::vector<std::int64_t>{1, 2}}}),
      words_of("add", {x}, {}, {{"beta", 1.0}}),
      words_of("add", {x}, {}, {}, &config),
      words_of("add", {x}, {}, {}, &other_config),
  };
  EXPECT_EQ(std::set<Words>(keys.begin(), keys.end()).size(), keys.size());
  EXPECT_EQ(words_of("add", {x}, {}, {{"alpha", std::nan("")}}), words_of("add", {x}, {}, {{"alpha", std::nan("")}}));
}

TEST(PlanKeyTest, KnowsOfAddressesOnlyWhetherATensorMapCanStartThere) {
  alignas(16) float data[24] = {};
  TensorView x = view({4, 3}, {3, 1});
  const Words aligned = words_of("add", {x});
  for (const int offset : {0, 4, 8}) {
    x.data = data + offset;
    EXPECT_EQ(words_of("add", {x}), aligned) << offset;
  }
  x.data = data + 1;
  const Words unaligned = words_of("add", {x});
  EXPECT_NE(unaligned, aligned);
  for (const int offset : {2, 3, 5}) {
    x.data = data + offset;
    EXPECT_EQ(words_of("add", {x}), unaligned) << offset;
  }
}

TEST(PlanKeyTest, HoldsCallsTooLongForTheStack) {
  const Dims extents{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  const std::vector<TensorView> inputs(20, view(extents, contiguous_strides(extents)));
  const Words words = words_of("add", inputs);
  EXPECT_GT(words.size(), 500u);
  std::vector<TensorView> changed = inputs;
  changed.back().strides[11] = 7;
  EXPECT_NE(words_of("add", changed), words);
}

void encode_size(PlanKey& key, std::int64_t size) {
  const TensorView x = view({size}, {1});
  const TensorView* pointer = &x;
  key.encode("add", {&pointer, 1}, {}, {}, nullptr);
}

TEST(PlanCacheTest, StaysBoundedAndKeepsWhatIsUsed) {
  PlanCache cache(256);
  const auto hot = std::make_shared<Plan>();
  PlanKey hot_key;
  encode_size(hot_key, 1);
  cache.insert(hot_key, hot);
  for (std::int64_t size = 2; size < 3000; ++size) {
    PlanKey key;
    encode_size(key, size);
    const auto plan = std::make_shared<Plan>();
    EXPECT_EQ(cache.insert(key, plan), plan);
    EXPECT_EQ(cache.find(key), plan);
    ASSERT_EQ(cache.find(hot_key), hot) << "evicted after " << size;
  }
  EXPECT_LE(cache.size(), 256u);
  EXPECT_GE(cache.size(), 200u);
}

TEST(PlanCacheTest, TheFirstPlanOfAKeyWins) {
  PlanCache cache;
  PlanKey key;
  encode_size(key, 5);
  const auto first = std::make_shared<Plan>(), second = std::make_shared<Plan>();
  EXPECT_EQ(cache.find(key), nullptr);
  EXPECT_EQ(cache.insert(key, first), first);
  EXPECT_EQ(cache.insert(key, second), first);
  EXPECT_EQ(cache.find(key), first);
}

TEST(RecentPlansTest, BelongsToOneThread) {
  PlanKey key;
  encode_size(key, 12345);
  const auto plan = std::make_shared<Plan>();
  RecentPlans::of_this_thread().put(key, plan);
  ASSERT_NE(RecentPlans::of_this_thread().find(key), nullptr);
  EXPECT_EQ(*RecentPlans::of_this_thread().find(key), plan);
  std::thread([&] { EXPECT_EQ(RecentPlans::of_this_thread().find(key), nullptr); }).join();
}

}  // namespace
}  // namespace kiln::test
