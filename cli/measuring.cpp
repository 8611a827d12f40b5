#include "cli/measuring.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core/errors.hpp"
#include "registry/tuning/op_timing.hpp"
#include "runtime/device_info.hpp"

namespace kiln::cli {

MeasuringPolicy measuring_policy(const std::string& measure, const std::string& l2, Device device) {
  if (!device.is_cuda() && (measure == "graph" || l2 == "flushed"))
    throw_value_error(
        "--measure graph and --l2 flushed are for GPUs; on the CPU calls are launched one by one over hot caches");
  MeasuringPolicy policy = default_measuring_policy(device);
  if (!measure.empty())
    policy.launch = measure == "graph" ? MeasuringPolicy::Launch::graph : MeasuringPolicy::Launch::eager;
  if (!l2.empty()) policy.l2 = l2 == "hot" ? MeasuringPolicy::L2::hot : MeasuringPolicy::L2::flushed;
  return policy;
}

Device chosen_device(const std::string& text) {
  const Device device = !text.empty()                        ? parse_device(text)
                        : device_count(DeviceType::cuda) > 0 ? Device::cuda(0)
                                                             : Device::cpu();
  device_info(device);
  return device;
}

double parse_budget_s(const std::string& text, std::string_view option) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "min" || unit == "m" ? 60 : 0;
  if (error != std::errc() || factor == 0 || !(number > 0) || !(number * factor < 1e9))
    throw_value_error(fmt::format("{} is '{}'; expected a time above 0, like 30s, 2min or 500ms", option, text));
  return number * factor;
}

}  // namespace kiln::cli
