#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/config.hpp"
#include "core/target.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/plan.hpp"
#include "registry/tuning/op_timing.hpp"

namespace kiln {

/// Copies of the kernels of a call's configs, each at a place in the device's memory of its own, which are timed in
/// turn. They leave that memory when this ends: a long tuning would fill it.
class KernelCopies {
 public:
  /// `call` must outlive this.
  KernelCopies(const Call& call, const Target& target, const MeasuringPolicy& policy);
  ~KernelCopies();
  KernelCopies(const KernelCopies&) = delete;
  KernelCopies& operator=(const KernelCopies&) = delete;

  /// Times of the config of number `candidate`. As many copies more as samples are asked for, until there are all: the
  /// first rounds of a playoff do not wait. DeviceError where there is no room for more, among others.
  std::vector<double> samples_us(std::size_t candidate, const Config& config, int samples);
  /// Leaves none.
  void clear() noexcept;

 private:
  std::function<void(Stream)> copy_of(const Config& config);

  const Call& call_;
  const Target target_;
  const MeasuringPolicy policy_;
  std::vector<std::shared_ptr<const Plan>> plans_;
  std::map<std::size_t, std::unique_ptr<CallTiming>> timings_;
};

}  // namespace kiln
