#include "core/host_cpu.hpp"

#include <cpuid.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/environment.hpp"
#include "core/errors.hpp"

namespace kiln {

std::string host_cpu_name() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return "x86-64";
  char vendor[13] = {};
  std::memcpy(vendor, &ebx, 4);
  std::memcpy(vendor + 4, &edx, 4);
  std::memcpy(vendor + 8, &ecx, 4);
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return "x86-64";
  const unsigned int base_family = (eax >> 8) & 0xf;
  const unsigned int family = base_family + (base_family == 0xf ? (eax >> 20) & 0xff : 0);
  const unsigned int model = ((eax >> 4) & 0xf) | ((eax >> 12) & 0xf0);

  if (std::strcmp(vendor, "AuthenticAMD") == 0) {
    if (family == 0x17) return model >= 0x30 ? "znver2" : "znver1";
    if (family == 0x19) {
      const bool zen4 =
          (model >= 0x10 && model <= 0x1f) || (model >= 0x60 && model <= 0x7f) || (model >= 0xa0 && model <= 0xaf);
      return zen4 ? "znver4" : "znver3";
    }
    if (family == 0x1a) return "znver5";
  }
  if (std::strcmp(vendor, "GenuineIntel") == 0 && family == 6) {
    switch (model) {
      case 0x3c:
      case 0x3f:
      case 0x45:
      case 0x46:
        return "haswell";
      case 0x3d:
      case 0x47:
      case 0x4f:
      case 0x56:
        return "broadwell";
      case 0x4e:
      case 0x5e:
      case 0x8e:
      case 0x9e:
      case 0xa5:
      case 0xa6:
        return "skylake";
      case 0x55:
        return "skylake-avx512";
      case 0x6a:
      case 0x6c:
        return "icelake-server";
      case 0x8f:
        return "sapphirerapids";
      case 0xcf:
        return "emeraldrapids";
      case 0xad:
        return "graniterapids";
      case 0x97:
      case 0x9a:
      case 0xb7:
      case 0xba:
      case 0xbf:
        return "alderlake";
      default:
        break;
    }
  }
  return "x86-64";
}

namespace {

// The builtin wants a literal, hence a macro. It also asks the operating system whether the wide registers are saved,
// which cpuid's feature bits alone do not tell. LLVM spells two of these differently from GCC.
#define KILN_ADD_FEATURE(gcc_name, llvm_name) \
  if (__builtin_cpu_supports(gcc_name)) features.push_back("+" llvm_name)

std::string cpu_features() {
  __builtin_cpu_init();
  std::vector<std::string> features;
  KILN_ADD_FEATURE("sse3", "sse3");
  KILN_ADD_FEATURE("ssse3", "ssse3");
  KILN_ADD_FEATURE("sse4.1", "sse4.1");
  KILN_ADD_FEATURE("sse4.2", "sse4.2");
  KILN_ADD_FEATURE("popcnt", "popcnt");
  KILN_ADD_FEATURE("lzcnt", "lzcnt");
  KILN_ADD_FEATURE("movbe", "movbe");
  KILN_ADD_FEATURE("bmi", "bmi");
  KILN_ADD_FEATURE("bmi2", "bmi2");
  KILN_ADD_FEATURE("f16c", "f16c");
  KILN_ADD_FEATURE("fma", "fma");
  KILN_ADD_FEATURE("avx", "avx");
  KILN_ADD_FEATURE("avx2", "avx2");
  KILN_ADD_FEATURE("gfni", "gfni");
  KILN_ADD_FEATURE("avx512f", "avx512f");
  KILN_ADD_FEATURE("avx512bw", "avx512bw");
  KILN_ADD_FEATURE("avx512cd", "avx512cd");
  KILN_ADD_FEATURE("avx512dq", "avx512dq");
  KILN_ADD_FEATURE("avx512vl", "avx512vl");
  KILN_ADD_FEATURE("avx512ifma", "avx512ifma");
  KILN_ADD_FEATURE("avx512vbmi", "avx512vbmi");
  KILN_ADD_FEATURE("avx512vbmi2", "avx512vbmi2");
  KILN_ADD_FEATURE("avx512bitalg", "avx512bitalg");
  KILN_ADD_FEATURE("avx512vpopcntdq", "avx512vpopcntdq");
  KILN_ADD_FEATURE("avx512vnni", "avx512vnni");
  KILN_ADD_FEATURE("avx512bf16", "avx512bf16");
  KILN_ADD_FEATURE("avx512fp16", "avx512fp16");
  KILN_ADD_FEATURE("avxvnni", "avxvnni");
  std::sort(features.begin(), features.end());
  std::string joined;
  for (const std::string& feature : features) joined += (joined.empty() ? "" : ",") + feature;
  return joined;
}

#undef KILN_ADD_FEATURE

}  // namespace

const std::string& host_cpu_features() {
  // Never destroyed: threads may still dispatch while the process exits.
  static const std::string& features = *new std::string(cpu_features());
  return features;
}

namespace {

struct FeatureLevel {
  std::string_view name;
  std::string_view features;  ///< beyond the level before it
};

constexpr FeatureLevel kLevels[] = {
    {"x86-64-v2", "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt"},
    {"x86-64-v3", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"},
    {"x86-64-v4", "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"},
};

std::vector<std::string> items_of(std::string_view list) {
  std::vector<std::string> items;
  for (std::size_t start = 0; start < list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    items.emplace_back(list.substr(start, end - start));
    start = end + 1;
  }
  return items;
}

/// `item` itself, or what the level of that name stands for; empty for neither.
std::vector<std::string> features_named(const std::string& item) {
  if (item.size() > 1 && item.front() == '+') return {item};
  std::vector<std::string> features;
  for (const FeatureLevel& level : kLevels) {
    for (std::string& feature : items_of(level.features)) features.push_back(std::move(feature));
    if (level.name == item) return features;
  }
  return {};
}

}  // namespace

std::string choose_cpu_features(std::string_view chosen, std::string_view offered) {
  const std::vector<std::string> available = items_of(offered);
  std::vector<std::string> kept;
  for (const std::string& item : items_of(chosen)) {
    const std::vector<std::string> features = features_named(item);
    if (features.empty())
      throw_value_error(fmt::format(
          "environment variable KILN_CPU_FEATURES names '{}': expected x86-64-v2, x86-64-v3, x86-64-v4 or +NAME",
          item));
    for (const std::string& feature : features) {
      if (std::find(available.begin(), available.end(), feature) == available.end())
        throw_value_error(
            fmt::format("environment variable KILN_CPU_FEATURES names '{}', which takes {}: this CPU offers {}", item,
                        feature, offered));
      kept.push_back(feature);
    }
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return fmt::format("{}", fmt::join(kept, ","));
}

const std::string& usable_cpu_features() {
  // Never destroyed: as above.
  static const std::string& features = *new std::string([] {
    const std::optional<std::string> chosen = environment("KILN_CPU_FEATURES");
    return chosen ? choose_cpu_features(*chosen, host_cpu_features()) : host_cpu_features();
  }());
  return features;
}

namespace {

/// What Linux knows of the caches of processor 0, "32768K" to a file; 0 where it says nothing.
std::int64_t last_level_of_sysfs() {
  std::int64_t largest_bytes = 0;
  for (int index = 0;; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    std::int64_t size = 0;
    char unit = 0;
    if (!(file >> size)) return largest_bytes;
    file >> unit;
    const int shift = unit == 'K' ? 10 : unit == 'M' ? 20 : 0;
    largest_bytes = std::max(largest_bytes, size << shift);
  }
}

}  // namespace

std::int64_t host_last_level_cache_bytes() {
  // The C library multiplies what cpuid says by a number of threads, which virtual machines make up: 320 MB for 32.
  static const std::int64_t bytes = [] {
    const std::int64_t known = last_level_of_sysfs();
    return known > 0 ? known
                     : std::max<std::int64_t>({sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE), 0});
  }();
  return bytes;
}

}  // namespace kiln
