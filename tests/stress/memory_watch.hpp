#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device.hpp"

namespace kiln::test {

/// Memory of this process over a run, sampled against how much of the work is done.
class MemoryWatch {
 public:
  explicit MemoryWatch(std::vector<Device> devices) : devices_(std::move(devices)) {}

  /// `progress` from 0 to 1.
  void sample(double progress);
  /// "resident 312.4 MiB, cuda:0 1024.0 MiB" of the last sample.
  std::string last() const;
  /// By how much the resident memory, or that of the GPU where it is more, grew over the last half: the mean of the
  /// last tenth of the run less that of the tenth behind the middle. A single sample would be of whatever was alive
  /// just then.
  double growth_mib() const;

 private:
  struct Sample {
    double progress;
    double resident_mib;
    std::vector<double> device_mib;
  };
  std::vector<Device> devices_;
  std::vector<Sample> samples_;
};

}  // namespace kiln::test
