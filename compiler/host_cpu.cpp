#include "compiler/host_cpu.hpp"

#include "core/host_cpu.hpp"

namespace kiln {

const Target& host_cpu_target() {
  static const Target target{DeviceType::cpu, host_cpu_name(), usable_cpu_features()};
  return target;
}

}  // namespace kiln
