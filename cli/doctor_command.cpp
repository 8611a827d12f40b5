#include "cli/doctor_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/self_test.hpp"
#include "cli/standard_streams.hpp"
#include "compiler/artifact_cache.hpp"
#include "compiler/compiler.hpp"
#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "core/absent_target.hpp"
#include "core/cpu_features.hpp"
#include "core/environment.hpp"
#include "core/errors.hpp"
#include "core/quantity.hpp"
#include "core/text_table.hpp"
#include "runtime/device_info.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

/// One target's or part's findings; `advice` says what to do where something is missing.
struct Findings {
  std::string title;
  bool works = false;
  std::string state;  ///< "works", "not available", ...
  Rows rows;
  Json json;
  std::vector<std::string> advice;
};

std::string compiler_state(DeviceType type, Json& json) {
  std::string problem = compiler_problem(type);
  if (!problem.empty()) {
    json["compiler_problem"] = problem;
    return problem;
  }
  try {
    const std::string identity(compiler_for(type).identity());
    json["compiler"] = identity;
    return identity;
  } catch (const Error& error) {
    json["compiler_problem"] = error.what();
    return error.what();
  }
}

void add_self_test(Findings& findings, Device device, Json& json) {
  const SelfTest test = self_test(device);
  findings.works = findings.works || test.ok;
  findings.rows.push_back({"self-test", (test.ok ? "ok: " : "FAILED: ") + test.summary});
  json["self_test"] = {{"ok", test.ok}, {"summary", test.summary}};
  if (!test.ok) findings.advice.push_back(fmt::format("{}: the self-test failed: {}", to_string(device), test.summary));
}

/// Which of a CPU's instructions kernels are made of, from the least to the newest: those that decide how fast they
/// are.
std::vector<std::string> used_instructions(const Target& target) {
  constexpr std::array<std::string_view, 10> kDeciding = {
      "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512dq", "avxvnni", "avx512vnni", "avx512bf16"};
  std::vector<std::string> used;
  for (const std::string_view name : kDeciding)
    if (has_feature(target.features, fmt::format("+{}", name))) used.emplace_back(name);
  return used;
}

Findings examine_cpu() {
  Findings findings{"CPU target", false, "", {}, Json::object(), {}};
  const DeviceInfo& cpu = device_info(Device::cpu());
  findings.rows.push_back(
      {"processor", fmt::format("{}, {}, {} of memory", cpu.name, format_count(cpu.processors, "thread"),
                                format_bytes(cpu.memory_bytes))});
  const bool has_cpu = compiler_problem(DeviceType::cpu) != kNoCpuTarget;
  findings.json = {
      {"built_in", has_cpu}, {"name", cpu.name}, {"threads", cpu.processors}, {"memory_bytes", cpu.memory_bytes}};
  if (!has_cpu) {
    findings.state = "not built in";
    findings.advice.emplace_back("CPU: rebuild with -DKILN_CPU=ON (needs LLVM and Clang 19) to run kernels on the CPU");
    return findings;
  }
  const Target& target = host_cpu_target();
  findings.json["target"] = to_string(target);
  findings.json["features"] = target.features;
  findings.rows.push_back({"target", to_string(target)});
  const std::vector<std::string> used = used_instructions(target);
  const int vector_bytes = cpu_vector_bytes(target.features);
  findings.json["vector_bytes"] = vector_bytes;
  findings.json["uses"] = used;
  findings.rows.push_back({"uses", fmt::format("vectors of {} bytes; {}", vector_bytes, fmt::join(used, " "))});
  findings.rows.push_back({"compiler", compiler_state(DeviceType::cpu, findings.json)});
  if (findings.json.contains("compiler_problem")) {
    findings.advice.push_back("CPU: " + findings.json["compiler_problem"].get<std::string>());
  } else {
    add_self_test(findings, Device::cpu(), findings.json);
  }
  findings.state = findings.works ? "works" : "does not work";
  return findings;
}

std::string driver_version_text(std::int32_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Findings examine_cuda() {
  const bool has_cuda = compiler_problem(DeviceType::cuda) != kNoCudaTarget;
  Findings findings{"CUDA target", false, "", {}, {{"built_in", has_cuda}, {"devices", Json::array()}}, {}};
  if (!has_cuda) {
    findings.state = "not built in";
    findings.advice.emplace_back(
        "CUDA: rebuild with -DKILN_CUDA=ON (needs the CUDA toolkit's headers) to run kernels on NVIDIA GPUs");
    return findings;
  }
  findings.rows.push_back({"compiler", compiler_state(DeviceType::cuda, findings.json)});
  if (findings.json.contains("compiler_problem"))
    findings.advice.push_back("CUDA: " + findings.json["compiler_problem"].get<std::string>());
  const int count = device_count(DeviceType::cuda);
  if (count == 0) {
    const std::string problem = device_problem(DeviceType::cuda);
    findings.rows.push_back({"devices", problem});
    findings.json["device_problem"] = problem;
    findings.advice.push_back("CUDA: " + problem + "; kernels run on a GPU where NVIDIA's driver and a device are");
    if (!findings.json.contains("compiler_problem"))
      findings.advice.back() += "; here they can be compiled for one: kiln inspect ... --target sm_90a";
    findings.state = "no device";
    return findings;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const Device device = Device::cuda(ordinal);
    const DeviceInfo& gpu = device_info(device);
    findings.rows.push_back(
        {to_string(device),
         fmt::format("{}, {}, {} SMs, {}, driver for CUDA {}", gpu.name, to_string(gpu.target), gpu.processors,
                     format_bytes(gpu.memory_bytes), driver_version_text(gpu.driver_version))});
    Json json = {{"device", to_string(device)},         {"name", gpu.name},
                 {"target", to_string(gpu.target)},     {"multiprocessors", gpu.processors},
                 {"memory_bytes", gpu.memory_bytes},    {"l2_bytes", gpu.l2_bytes},
                 {"driver_version", gpu.driver_version}};
    if (!findings.json.contains("compiler_problem")) add_self_test(findings, device, json);
    findings.json["devices"].push_back(json);
  }
  findings.state = findings.works ? "works" : "does not work";
  return findings;
}

std::string_view state_name(DiskStore::State state) {
  switch (state) {
    case DiskStore::State::usable:
      return "usable";
    case DiskStore::State::read_only:
      return "read-only";
    case DiskStore::State::refused:
      return "refused";
    case DiskStore::State::unavailable:
      return "unavailable";
  }
  return "?";
}

Findings examine_cache() {
  Findings findings{"Cache", false, "", {}, Json::object(), {}};
  const DiskStore& store = ArtifactCache::process().disk();
  std::int64_t count = 0, bytes = 0;
  for (const DiskStore::Entry& entry : store.list(/*verify=*/false)) {
    ++count;
    bytes += entry.size_bytes;
  }
  findings.works = store.state() == DiskStore::State::usable;
  findings.state = state_name(store.state());
  findings.rows = {{"folder", store.root().string()},
                   {"size", format_count(count, "artifact") + ", " + format_bytes(bytes)}};
  findings.json = {{"root", store.root().string()}, {"state", findings.state}, {"artifacts", count}, {"bytes", bytes}};
  if (const std::string problem = store.problem(); !problem.empty()) {
    findings.rows.push_back({"problem", problem});
    findings.json["problem"] = problem;
    findings.advice.push_back("Cache: " + problem + " (or point KILN_CACHE_DIR at a folder of your own)");
  }
  return findings;
}

Findings examine_environment() {
  Findings findings{"Environment", true, "", {}, Json::array(), {}};
  for (const EnvironmentVariable& variable : environment_variables()) {
    const std::optional<std::string> value = environment(variable.name);
    findings.rows.push_back({(value ? "* " : "  ") + std::string(variable.name), value.value_or("unset"),
                             fmt::format("{}; default: {}", variable.meaning, variable.fallback)});
    findings.json.push_back({{"name", variable.name},
                             {"value", value ? Json(*value) : Json()},
                             {"fallback", variable.fallback},
                             {"meaning", variable.meaning}});
  }
  return findings;
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  const Findings cpu = examine_cpu(), cuda = examine_cuda(), cache = examine_cache(), variables = examine_environment();
  const bool works = cpu.works || cuda.works;
  std::vector<std::string> advice;
  for (const Findings* findings : {&cpu, &cuda, &cache})
    advice.insert(advice.end(), findings->advice.begin(), findings->advice.end());
  if (options.json) {
    const Json json = {{"version", KILN_VERSION}, {"works", works},      {"cpu", cpu.json},
                       {"cuda", cuda.json},       {"cache", cache.json}, {"environment", variables.json},
                       {"advice", advice}};
    print_json(json);
  } else {
    std::string text = fmt::format("kiln {}\n", KILN_VERSION);
    for (const Findings* findings : {&cpu, &cuda, &cache, &variables})
      text += fmt::format("\n{}{}{}\n{}", findings->title, findings->state.empty() ? "" : ": ", findings->state,
                          format_table(findings->rows, 2));
    if (!advice.empty()) text += "\nWhat is missing\n";
    for (const std::string& line : advice) text += "  - " + line + '\n';
    print_text(text);
  }
  if (works) return 0;
  print_error(fmt::format("no target works here; '{}' above says why", options.json ? "advice" : "What is missing"));
  return 1;
}

}  // namespace kiln::cli
