#include "registry/inspection/occupancy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "core/quantity.hpp"

namespace kiln {
namespace {

constexpr std::int32_t kKiB = 1024;
constexpr std::int32_t kRegisters = 64 * kKiB;
constexpr std::int32_t kMostRegistersPerThread = 255;
constexpr std::int32_t kWarpThreads = 32;
constexpr std::int32_t kMostThreadsPerProgram = 1024;
/// How the driver hands them out, which the guide does not say and cuda_occupancy.h of the CUDA toolkit does.
constexpr std::int32_t kRegisterUnit = 256;
constexpr std::int32_t kParts = 4;
constexpr std::int32_t kSharedUnitBytes = 128;
constexpr std::int32_t kReservedSharedBytes = kKiB;
constexpr std::int32_t kNoLimit = std::numeric_limits<std::int32_t>::max();

struct Row {
  int capability;  ///< 90 for 9.0
  MultiprocessorLimits limits;
};

/// Only architectures that reserve 1 KiB of shared memory for each program, as all do from 8.0 on.
constexpr Row kTable[] = {
    {80, {64, 32, kRegisters, 164 * kKiB, 163 * kKiB}},  {86, {48, 16, kRegisters, 100 * kKiB, 99 * kKiB}},
    {87, {48, 16, kRegisters, 164 * kKiB, 163 * kKiB}},  {89, {48, 24, kRegisters, 100 * kKiB, 99 * kKiB}},
    {90, {64, 32, kRegisters, 228 * kKiB, 227 * kKiB}},  {100, {64, 32, kRegisters, 228 * kKiB, 227 * kKiB}},
    {103, {64, 32, kRegisters, 228 * kKiB, 227 * kKiB}}, {110, {48, 24, kRegisters, 228 * kKiB, 227 * kKiB}},
    {120, {48, 24, kRegisters, 100 * kKiB, 99 * kKiB}},  {121, {48, 24, kRegisters, 100 * kKiB, 99 * kKiB}},
};

constexpr std::int32_t rounded_up(std::int32_t value, std::int32_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::int32_t programs_by_registers(std::int32_t registers_per_thread, std::int32_t warps) {
  if (registers_per_thread == 0) return kNoLimit;
  const std::int32_t per_warp = rounded_up(registers_per_thread * kWarpThreads, kRegisterUnit);
  // A launch is refused as if a program had the same number of warps on each part.
  if (registers_per_thread > kMostRegistersPerThread || per_warp * rounded_up(warps, kParts) > kRegisters) return 0;
  return kRegisters / kParts / per_warp * kParts / warps;
}

}  // namespace

std::optional<MultiprocessorLimits> multiprocessor_limits(const Target& target) {
  constexpr std::string_view kPrefix = "sm_";
  const std::string_view arch = target.arch;
  if (target.type != DeviceType::cuda || !arch.starts_with(kPrefix)) return std::nullopt;
  int capability = 0;
  std::from_chars(arch.data() + kPrefix.size(), arch.data() + arch.size(), capability);
  const auto* const found = std::ranges::find(kTable, capability, &Row::capability);
  return found == std::end(kTable) ? std::nullopt : std::optional(found->limits);
}

std::optional<Occupancy> occupancy(const Target& target, const ProgramResources& resources) {
  const std::optional<MultiprocessorLimits> limits = multiprocessor_limits(target);
  if (!limits || resources.threads < 1) return std::nullopt;
  const std::int32_t warps = rounded_up(resources.threads, kWarpThreads) / kWarpThreads;
  Occupancy occupancy;
  occupancy.by_registers = programs_by_registers(resources.registers_per_thread, warps);
  occupancy.by_shared_memory =
      resources.shared_bytes > limits->shared_bytes_per_program
          ? 0
          : limits->shared_bytes / rounded_up(resources.shared_bytes + kReservedSharedBytes, kSharedUnitBytes);
  occupancy.by_threads = resources.threads > kMostThreadsPerProgram ? 0 : limits->warps / warps;
  occupancy.by_programs = limits->programs;
  const std::pair<std::int32_t, const char*> resource_limits[] = {{occupancy.by_registers, "registers"},
                                                                  {occupancy.by_shared_memory, "shared memory"},
                                                                  {occupancy.by_threads, "threads"},
                                                                  {occupancy.by_programs, "programs"}};
  occupancy.programs = std::ranges::min_element(resource_limits)->first;
  for (const auto& [programs, name] : resource_limits)
    if (programs == occupancy.programs) occupancy.limited_by.emplace_back(name);
  occupancy.warps = occupancy.programs * warps;
  occupancy.share = static_cast<double>(occupancy.warps) / limits->warps;
  return occupancy;
}

std::string to_string(const Occupancy& occupancy, const MultiprocessorLimits& limits) {
  return fmt::format("{}, {} of {} warps ({:.0f}%); limited by {}", format_count(occupancy.programs, "program"),
                     occupancy.warps, limits.warps, 100 * occupancy.share, fmt::join(occupancy.limited_by, " and "));
}

}  // namespace kiln
