#include "core/target.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core/errors.hpp"

namespace kiln {
namespace {

[[noreturn]] void refuse_target(std::string_view text, std::string_view reason) {
  throw_value_error(fmt::format("'{}' is not a CUDA target: {}; expected sm_XX, such as sm_80, sm_90a or cuda:sm_100a",
                                text, reason));
}

}  // namespace

std::string to_string(const Target& target) {
  const std::string type = target.type == DeviceType::cuda ? "cuda" : "cpu";
  return target.arch.empty() ? type : type + ":" + target.arch;
}

Target parse_cuda_target(std::string_view text) {
  std::string_view arch = text;
  if (arch.starts_with("cuda:")) arch.remove_prefix(5);
  if (!arch.starts_with("sm_")) refuse_target(text, "it does not start with sm_");
  const char* begin = arch.data() + 3;
  const char* end = arch.data() + arch.size();
  int capability = 0;
  const auto [stop, error] = std::from_chars(begin, end, capability);
  if (error != std::errc() || *begin == '-' || *begin == '0' || stop - begin < 2 || stop - begin > 3)
    refuse_target(text, "a compute capability of two or three digits must follow sm_");
  const std::string_view suffix(stop, static_cast<std::size_t>(end - stop));
  if (!suffix.empty() && suffix != "a" && suffix != "f") refuse_target(text, "only 'a' or 'f' may follow the digits");
  if (suffix == "a" && capability < 90) refuse_target(text, "'a' (architecture-specific) exists from sm_90 on");
  if (suffix == "f" && capability < 100) refuse_target(text, "'f' (family-specific) exists from sm_100 on");
  return {DeviceType::cuda, std::string(arch), {}};
}

Target cuda_target(int major, int minor) {
  return {DeviceType::cuda, fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : ""), {}};
}

}  // namespace kiln
