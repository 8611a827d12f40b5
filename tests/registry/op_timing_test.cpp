// What is timed, and how often; how long it takes is the machine's.

#include "registry/tuning/op_timing.hpp"
#include "registry/plan/build_plan.hpp"
#include "registry/plan/device_target.hpp"

#include <gtest/gtest.h>

#include <array>

#include "core/tensor.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/validation.hpp"
#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"

namespace kiln::test {
namespace {

TEST(CallTiming, CallsTakeTurnsSampleBySample) {
  std::array<int, 3> called{};
  const auto counting = [&](std::size_t which) { return [&called, which](Stream) { ++called[which]; }; };
  const Stream stream = Stream::default_of(Device::cpu());
  CallTiming timing(counting(0), stream, default_measuring_policy(Device::cpu()));
  EXPECT_EQ(timing.num_calls(), 1U);
  EXPECT_GT(called[0], 0) << "it is timed once, to see how many calls make a sample";
  timing.add_call(counting(1));
  timing.add_call(counting(2));
  EXPECT_EQ(timing.num_calls(), 3U);

  called = {};
  EXPECT_EQ(timing.samples_us(6).size(), 6U);
  EXPECT_GT(called[0], 1);
  EXPECT_EQ(called[0] % 2, 0);
  EXPECT_EQ(called[0], called[1]);
  EXPECT_EQ(called[0], called[2]);

  called = {};
  timing.samples_us(1);
  EXPECT_GT(called[0], 0) << "the seventh sample is the first call's";
  EXPECT_EQ(called[1] + called[2], 0);
}

class LoadedAnew : public DevicesTest {};

/// Copies must not be one kernel under several names: that is what a playoff goes through them for.
TEST_F(LoadedAnew, EveryPlanHasKernelsOfItsOwn) {
  const OpSpec& spec = Registry::process().get("add");
  for (const Device device : devices_) {
    const Stream stream = Stream::default_of(device);
    const Tensor x = empty({1000}, DType::f32, stream), y = empty({1000}, DType::f32, stream);
    const std::array<TensorView, 2> inputs{x, y};
    const Call call = validated_call(spec, inputs);
    const auto plan_with = [&](Loading loading) { return build_plan(call, target_of(device), nullptr, {}, loading); };
    const auto shared = plan_with(Loading::allowed), again = plan_with(Loading::allowed);
    const auto one = plan_with(Loading::anew), other = plan_with(Loading::anew);
    ASSERT_EQ(shared->steps.size(), 1U);
    EXPECT_EQ(shared->steps[0].loaded->kernel, again->steps[0].loaded->kernel);
    EXPECT_NE(one->steps[0].loaded->kernel, shared->steps[0].loaded->kernel);
    EXPECT_NE(one->steps[0].loaded->kernel, other->steps[0].loaded->kernel);
    EXPECT_EQ(one->steps[0].loaded->artifact_key, other->steps[0].loaded->artifact_key);
  }
}

}  // namespace
}  // namespace kiln::test
