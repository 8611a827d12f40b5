#include "core/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "core/errors.hpp"

namespace kiln {
namespace {

constexpr std::array kVariables = {
    EnvironmentVariable{"KILN_CACHE_DIR", "$XDG_CACHE_HOME/kiln, else ~/.cache/kiln",
                        "directory of the artifact cache"},
    EnvironmentVariable{"KILN_CACHE_SIZE", "4G", "bytes the artifact cache may take on disk (suffixes K, M, G, T)"},
    EnvironmentVariable{"KILN_SOURCE_DIR", "the sources embedded in the library",
                        "source tree to read kernels and tl headers from, for editing them live"},
    EnvironmentVariable{"KILN_DEBUG", "0", "1: kernels are compiled with their device_asserts active"},
    EnvironmentVariable{"KILN_COMPILE_TIMEOUT", "600", "seconds that compiling one kernel may take"},
    EnvironmentVariable{"KILN_COMPILE_MEMORY", "4G",
                        "bytes that Clang's own memory may take while it compiles one kernel for the CPU (suffixes K, "
                        "M, G, T)"},
    EnvironmentVariable{"KILN_NUM_THREADS", "all usable cores", "threads that run the programs of a CPU kernel"},
    EnvironmentVariable{"KILN_CPU_FEATURES", "all that this CPU offers",
                        "instruction sets that CPU kernels may use, of those that this CPU offers: x86-64-v2, "
                        "x86-64-v3 (AVX2), x86-64-v4 (AVX-512), further ones of LLVM's names after it "
                        "(x86-64-v3,+avxvnni)"},
    EnvironmentVariable{"KILN_NVRTC_PATH", "libnvrtc as the dynamic linker and CUDA's usual folders offer it",
                        "path of the libnvrtc to compile CUDA kernels with"},
    EnvironmentVariable{"KILN_CUPTI_PATH", "libcupti as the dynamic linker and CUDA's usual folders offer it",
                        "path of the libcupti to time kernels on GPUs with while a profiler runs"},
    EnvironmentVariable{"KILN_TUNING", "use",
                        "where configs come from: off (defaults), use (tuned shapes), nearest (closest tuned shapes), "
                        "first_use (tune new shapes when they are first seen)"},
    EnvironmentVariable{"KILN_TUNING_BUDGET", "2", "seconds that tuning one call at its first use may take"},
    EnvironmentVariable{"KILN_TRACE", "no trace", "file to append each distinct call to, for kiln tune --from-trace"},
    EnvironmentVariable{"CUDA_HOME", "/usr/local/cuda", "folder of the CUDA toolkit, where libcupti is looked for"},
    EnvironmentVariable{"CUDA_PATH", "/usr/local/cuda", "as CUDA_HOME"},
    EnvironmentVariable{"XDG_CACHE_HOME", "~/.cache", "where caches live, when KILN_CACHE_DIR is unset"},
    EnvironmentVariable{"HOME", "no disk cache", "home directory, for ~/.cache"},
};

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view expected) {
  throw_value_error(fmt::format("environment variable {} is '{}': expected {}", name, value, expected));
}

std::string lower(std::string text) {
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return text;
}

/// Factor of a size suffix; 0 for one that does not exist.
std::int64_t size_factor(std::string_view suffix) {
  if (suffix.empty()) return 1;
  constexpr std::string_view kLetters = "kmgt";
  const std::size_t position = kLetters.find(suffix.front());
  if (suffix.size() != 1 || position == std::string_view::npos) return 0;
  return std::int64_t{1} << (10 * (position + 1));
}

}  // namespace

std::span<const EnvironmentVariable> environment_variables() noexcept {
  return kVariables;
}

std::optional<std::string> environment(std::string_view name) {
  const bool listed = std::any_of(kVariables.begin(), kVariables.end(), [&](const auto& v) { return v.name == name; });
  if (!listed) throw InternalError(fmt::format("environment variable {} is not in Kiln's table", name));
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<std::int64_t> environment_bytes(std::string_view name) {
  const std::optional<std::string> value = environment(name);
  if (!value) return std::nullopt;
  constexpr std::string_view kExpected = "a size in bytes of 0 or more, such as 512, 64M or 2G";
  const std::string text = lower(*value);
  std::int64_t count = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || count < 0) refuse(name, *value, kExpected);
  const std::int64_t factor = size_factor(std::string_view(stop, text.data() + text.size()));
  if (factor == 0 || __builtin_mul_overflow(count, factor, &count)) refuse(name, *value, kExpected);
  return count;
}

std::optional<std::int64_t> environment_int(std::string_view name) {
  const std::optional<std::string> value = environment(name);
  if (!value) return std::nullopt;
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc() || stop != value->data() + value->size()) refuse(name, *value, "an integer");
  return number;
}

std::optional<double> environment_seconds(std::string_view name) {
  const std::optional<std::string> value = environment(name);
  if (!value) return std::nullopt;
  double seconds = 0;
  const auto [stop, error] = std::from_chars(value->data(), value->data() + value->size(), seconds);
  if (error != std::errc() || stop != value->data() + value->size() || !(seconds > 0) || !std::isfinite(seconds))
    refuse(name, *value, "a number of seconds above 0, such as 2 or 0.5");
  return seconds;
}

std::optional<bool> environment_bool(std::string_view name) {
  const std::optional<std::string> value = environment(name);
  if (!value) return std::nullopt;
  const std::string text = lower(*value);
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off") return false;
  refuse(name, *value, "1, true, yes or on, or 0, false, no or off");
}

}  // namespace kiln
