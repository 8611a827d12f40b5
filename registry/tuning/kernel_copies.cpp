#include "registry/tuning/kernel_copies.hpp"

#include <exception>
#include <functional>
#include <utility>

#include "registry/dispatch/enqueue.hpp"
#include "registry/dispatch/matching_tensors.hpp"
#include "registry/plan/build_plan.hpp"
#include "runtime/stream.hpp"

namespace kiln {
namespace {

constexpr std::size_t kCopies = 30;

/// Whether all that was launched on `stream` is done.
bool is_done(Stream stream) noexcept {
  try {
    synchronize(stream);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

KernelCopies::KernelCopies(const Call& call, const Target& target, const MeasuringPolicy& policy)
    : call_(call), target_(target), policy_(policy) {}

KernelCopies::~KernelCopies() {
  clear();
}

std::vector<double> KernelCopies::samples_us(std::size_t candidate, const Config& config, int samples) {
  auto& timing = timings_[candidate];
  for (int more = samples; more > 0 && (timing == nullptr || timing->num_calls() < kCopies); --more) {
    auto copy = copy_of(config);
    copy(*call_.stream);  // the first call of a kernel does more
    if (timing == nullptr)
      timing = std::make_unique<CallTiming>(std::move(copy), *call_.stream, policy_);
    else
      timing->add_call(std::move(copy));
  }
  return timing->samples_us(samples);
}

std::function<void(Stream)> KernelCopies::copy_of(const Config& config) {
  const auto& plan = plans_.emplace_back(build_plan(call_, target_, &config, {}, Loading::anew));
  return [this, plan](Stream stream) {
    PlanTensors storage;
    enqueue(*plan, matching_tensors(*plan, call_.inputs, call_.outputs, "tuned", storage), stream);
  };
}

void KernelCopies::clear() noexcept {
  timings_.clear();
  // They were launched on this stream alone, and a tuning is refused where it is being captured. What is not done,
  // since the device is gone, stays.
  if (!plans_.empty() && is_done(*call_.stream))
    for (const auto& plan : plans_)
      for (const Plan::Step& step : plan->steps) step.loaded->kernel->unload();
  plans_.clear();
}

}  // namespace kiln
