#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "runtime/stream.hpp"

namespace kiln {

struct Plan;

/// Takes down one call of an op, from the first look at its arguments to its return. A call that ends before
/// after_launch failed.
class CallObserver {
 public:
  CallObserver() = default;
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;

  /// Around the launch. `plan` is null for a graph. `is_recorded`: Kiln records the stream, so that nothing runs.
  virtual void before_launch(const Plan* plan, Stream stream, bool is_recorded) = 0;
  virtual void after_launch() = 0;

 protected:
  ~CallObserver() = default;
};

/// Work that a first call does.
enum class ProfilePhase : std::uint8_t { plan, compile, load, tune };

/// Takes down one phase of making a plan while it lives.
class PhaseObserver {
 public:
  PhaseObserver() = default;
  PhaseObserver(const PhaseObserver&) = delete;
  PhaseObserver& operator=(const PhaseObserver&) = delete;
  virtual ~PhaseObserver() = default;

  /// For work that shows only at its end which phase it was.
  virtual void turned_out(ProfilePhase phase) noexcept = 0;
};

/// What those who look on at calls do. The profiler stands above the dispatcher, which knows only this of it.
struct Observation {
  /// Runs `call` once, with what takes it down.
  void (*around_call)(std::string_view op, const std::function<void(CallObserver&)>& call);
  /// Null where nobody looks on.
  std::unique_ptr<PhaseObserver> (*begin_phase)(ProfilePhase phase, std::string_view op, std::string_view kernel);
};
/// Whoever looks on says so before the first call that is to be seen, and stays: what it does costs calls nothing that
/// are not observed (runtime/observers.hpp). `observation` lives as long as the process.
void set_observation(const Observation& observation) noexcept;

/// Runs `call` once; what it is given is null where nobody ever looked on. Asked only where is_observed().
void observe_call(std::string_view op, const std::function<void(CallObserver*)>& call);
/// Null where nobody looks on.
std::unique_ptr<PhaseObserver> observe_phase(ProfilePhase phase, std::string_view op, std::string_view kernel = {});

}  // namespace kiln
