#include "compiler/host_cpu.hpp"

#include "core/host_cpu.hpp"

namespace kiln {

const Target& host_cpu_target() {
  // Never destroyed: threads may still dispatch while the process exits.
  static const Target& target = *new Target{DeviceType::cpu, host_cpu_name(), usable_cpu_features()};
  return target;
}

}  // namespace kiln
