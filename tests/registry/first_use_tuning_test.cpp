// Tuning at the first use of a call: once, for all threads, and not at all where it is interrupted.

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/interruption.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/tuning_policy.hpp"
#include "tests/registry/scaled_op.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

class FirstUseTuning : public TuningTest {};

TEST_F(FirstUseTuning, TunesOnceForAllThreads) {
  for (const Device device : devices_) {
    std::vector<std::string> lines;
    set_tuning_log([&](const std::string& line) { lines.push_back(line); });
    set_tuning_policy(TuningPolicy::first_use);
    const Tensor x = ramp(300'000, device);
    const std::vector<float> expected = read_f32(dispatch_gpu_op("scaled", {x}, {}, {.tuning = TuningPolicy::off}));
    EXPECT_EQ(resolve("scaled", {x.view()}).report().config_source, "default");  // has no data to tune with
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] { EXPECT_EQ(read_f32(dispatch_gpu_op("scaled", {x})), expected); });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_THAT(lines[0], HasSubstr("op 'scaled' was tuned at its first use"));
    EXPECT_EQ(report_of(x).config_source, "tuned");
  }
}

/// What a front end throws at Ctrl-C, and only on the thread that a person looks at.
struct CtrlC : std::runtime_error {
  using std::runtime_error::runtime_error;
};
constinit std::atomic<bool> is_pressed = false;

TEST_F(FirstUseTuning, AnInterruptReachesTheCallerAndLeavesNothing) {
  static const std::thread::id main_thread = std::this_thread::get_id();
  static std::atomic<bool> presses_while_waiting = false;
  set_interrupt_check([] {
    if (std::this_thread::get_id() == main_thread && is_pressed.exchange(false)) throw CtrlC("Ctrl-C");
  });
  OpSpec spec = scaled("scaled_interrupted", false);
  spec.tolerance = [](DType) {  // stands for a comparison that is compiled, and waited for
    if (presses_while_waiting.exchange(false)) is_pressed = true;
    check_interrupt();
    return Tolerance{1e-5, 1e-5};
  };
  Registry::process().register_op(spec);
  const Tensor x = ramp(3000, devices_[0]);
  const auto source = [&] {
    return resolve("scaled_interrupted", {x.view()}, {}, {.tuning = TuningPolicy::use}).report().config_source;
  };
  set_tuning_policy(TuningPolicy::first_use);
  for (const bool while_waiting : {true, false}) {
    (while_waiting ? presses_while_waiting : is_pressed) = true;
    EXPECT_THROW(dispatch_gpu_op("scaled_interrupted", {x}), CtrlC) << while_waiting;
    EXPECT_EQ(source(), "default");
  }
  dispatch_gpu_op("scaled_interrupted", {x});
  EXPECT_EQ(source(), "tuned");
  set_interrupt_check(nullptr);
}

}  // namespace
}  // namespace kiln::test
