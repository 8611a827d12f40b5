#include "registry/plan/call_observer.hpp"

#include <atomic>

namespace kiln {
namespace {

std::atomic<const Observation*> current_observation{nullptr};

}  // namespace

void set_observation(const Observation& observation) noexcept {
  current_observation.store(&observation, std::memory_order_release);
}

void observe_call(std::string_view op, const std::function<void(CallObserver*)>& call) {
  if (const Observation* const observation = current_observation.load(std::memory_order_acquire))
    observation->around_call(op, [&](CallObserver& observer) { call(&observer); });
  else
    call(nullptr);
}

std::unique_ptr<PhaseObserver> observe_phase(ProfilePhase phase, std::string_view op, std::string_view kernel) {
  const Observation* const observation = current_observation.load(std::memory_order_acquire);
  return observation == nullptr ? nullptr : observation->begin_phase(phase, op, kernel);
}

}  // namespace kiln
