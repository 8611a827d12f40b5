#include "core/device.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core/errors.hpp"

namespace kiln {

std::string to_string(Device device) {
  return device.is_cuda() ? fmt::format("cuda:{}", device.index) : "cpu";
}

Device parse_device(std::string_view text) {
  if (text == "cpu") return Device::cpu();
  if (text == "cuda") return Device::cuda();
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const char* begin = text.data() + kPrefix.size();
    const char* end = text.data() + text.size();
    std::int32_t ordinal = -1;
    const auto [stop, error] = std::from_chars(begin, end, ordinal);
    if (error == std::errc() && stop == end && ordinal >= 0) return Device::cuda(ordinal);
  }
  throw_value_error(fmt::format("'{}' is not a device: expected cpu, cuda or cuda:N, such as cuda:1", text));
}

}  // namespace kiln
