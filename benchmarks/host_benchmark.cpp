// Host costs: what dispatch adds to a launch, and what a kernel costs to compile, find and load.
//   host_benchmark launch|compile cpu|cuda

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/raw_launch.hpp"
#include "compiler/artifact_cache.hpp"
#include "compiler/compilers.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/registry.hpp"
#include "registry/profiling/profiler.hpp"
#include "runtime/device_info.hpp"
#include "runtime/event_timer.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double elapsed_us(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

nlohmann::json summary(const std::vector<double>& samples_us) {
  const kiln::TimingSummary s = kiln::summarize(samples_us);
  return {{"median_us", s.median_us}, {"min_us", s.min_us}, {"p10_us", s.p10_us}, {"p90_us", s.p90_us}};
}

kiln::Tensor random_tensor(std::int64_t n, kiln::Device device) {
  kiln::Tensor host = kiln::empty({n}, kiln::DType::f32, kiln::Device::cpu());
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::generate_n(host.data_as<float>(), n, [&] { return normal(random); });
  return kiln::to_device(host, device);
}

/// Microseconds per call of a small add: raw, resolved and dispatched in turn within each round, so that drift hits all
/// alike.
nlohmann::json launch_costs(kiln::Device device) {
  constexpr int kElements = 1024, kCalls = 100, kRounds = 400;
  const kiln::Tensor x = random_tensor(kElements, device), y = random_tensor(kElements, device);
  const kiln::Tensor out = kiln::empty({kElements}, kiln::DType::f32, device);
  const kiln::Stream stream = kiln::Stream::default_of(device);
  const std::vector<kiln::Tensor> outputs{out};
  const std::vector<kiln::Tensor> inputs{x, y};
  const std::vector<kiln::TensorView> input_views{x, y}, output_views{out};
  kiln::DispatchOptions options;
  options.outputs = outputs;

  const kiln::ResolvedOp resolved = kiln::resolve("add", input_views, {}, options);
  const kiln::Target target = kiln::target_of(device);
  const kiln::OpSpec& spec = kiln::Registry::process().get("add");
  const kiln::Choice choice =
      kiln::choose(kiln::validated_call(spec, input_views, {}, {.outputs = output_views}), target, nullptr);
  const auto artifact =
      kiln::ArtifactCache::process().get(choice.requests.front(), kiln::compiler_for(device.type)).artifact;
  const RawLaunch raw(*artifact, choice.plan.launches.front().geometry);
  void* data[3] = {out.data(), x.data(), y.data()};
  void* parameters[kiln::kMaxArguments];
  choice.plan.launches.front().arguments.bind(data, parameters);

  std::vector<double> raw_us, resolved_us, dispatch_us, allocating_us;
  const auto sample = [&](std::vector<double>& samples, const auto& call) {
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    samples.push_back(elapsed_us(start) / kCalls);
    kiln::synchronize(stream);  // so that no queue fills up and its back-pressure is not timed
  };
  for (int round = 0; round < kRounds; ++round) {
    sample(raw_us, [&] { raw(parameters); });
    sample(resolved_us, [&] { resolved(input_views, output_views, stream); });
    sample(dispatch_us, [&] { kiln::dispatch_gpu_op("add", inputs, {}, options); });
    sample(allocating_us, [&] { kiln::dispatch_gpu_op("add", inputs); });
  }
  std::vector<double> resolved_again_us, profiled_us, profiled_dispatch_us, by_events_us, resolved_after_us;
  std::vector<double> first_us;  // calls after a profiler's start: on a GPU they load CUPTI, or make events
  const auto sample_rounds = [&](std::vector<double>& samples, const auto& call) {
    for (int round = 0; round < kRounds; ++round) sample(samples, call);
  };
  const auto call_resolved = [&] { resolved(input_views, output_views, stream); };
  sample_rounds(resolved_again_us, call_resolved);
  kiln::Profiler profiler;
  sample(first_us, call_resolved);
  sample_rounds(profiled_us, call_resolved);
  sample_rounds(profiled_dispatch_us, [&] { kiln::dispatch_gpu_op("add", inputs, {}, options); });
  const kiln::ProfileReport report = profiler.report();
  {
    const kiln::Profiler with_events({.device_time_source = kiln::DeviceTimeSource::events});
    sample(first_us, call_resolved);
    sample_rounds(by_events_us, call_resolved);
  }
  sample_rounds(resolved_after_us, call_resolved);
  const double floor_us = kiln::summarize(raw_us).median_us;
  return {
      {"what", "add f32 of 1024 elements, per call"},
      {"raw", summary(raw_us)},
      {"resolved", summary(resolved_us)},
      {"dispatch_outputs_given", summary(dispatch_us)},
      {"dispatch_outputs_allocated", summary(allocating_us)},
      {"resolved_profiled", summary(profiled_us)},
      {"dispatch_profiled", summary(profiled_dispatch_us)},
      {"resolved_profiled_by_events", summary(by_events_us)},
      {"resolved_after_profilers", summary(resolved_after_us)},
      {"device_times", report.device_timing},
      {"device_p50_us", report.rows.at(0).device_time.p50_us},
      {"profiler_us", kiln::summarize(profiled_us).median_us - kiln::summarize(resolved_again_us).median_us},
      {"profiler_by_events_us", kiln::summarize(by_events_us).median_us - kiln::summarize(resolved_again_us).median_us},
      {"left_by_profilers_us",
       kiln::summarize(resolved_after_us).median_us - kiln::summarize(resolved_again_us).median_us},
      {"resolved_over_raw_us", kiln::summarize(resolved_us).median_us - floor_us},
      {"dispatch_over_raw_us", kiln::summarize(dispatch_us).median_us - floor_us}};
}

/// Cold compile, disk hit and load of elementwise kernels, each in a cache of its own.
nlohmann::json compile_costs(kiln::Device device, const kiln::Target& target, bool can_load) {
  const auto root =
      std::filesystem::temp_directory_path() / ("kiln-benchmark-" + std::to_string(std::random_device{}()));
  kiln::Compiler& compiler = kiln::compiler_for(target.type);
  nlohmann::json rows = nlohmann::json::array();
  struct Case {
    const char* op;
    kiln::DType dtype;
    kiln::Dims first, second;
  };
  const std::vector<Case> cases = {
      {"sub", kiln::DType::f32, {1 << 20}, {1 << 20}},  {"add", kiln::DType::f32, {1 << 20}, {1 << 20}},
      {"add", kiln::DType::bf16, {1 << 20}, {1 << 20}}, {"mul", kiln::DType::f64, {1 << 20}, {1 << 20}},
      {"exp", kiln::DType::f32, {1 << 20}, {}},         {"gelu", kiln::DType::bf16, {1 << 20}, {}},
      {"pow", kiln::DType::f32, {1 << 20}, {1 << 20}},  {"remainder", kiln::DType::i64, {1 << 20}, {1 << 20}},
      {"add", kiln::DType::f32, {4096, 4096}, {4096}},  {"add", kiln::DType::bf16, {4096, 4096}, {4096, 1}},
      {"add", kiln::DType::f32, {1000, 3, 3}, {3, 1}},  {"sub", kiln::DType::fp8e4m3, {1 << 20}, {1 << 20}},
  };
  bool warmed = false;
  for (const Case& one : cases) {
    std::vector<kiln::TensorView> inputs{kiln::dense_view(nullptr, one.dtype, one.first, device)};
    if (!one.second.empty()) inputs.push_back(kiln::dense_view(nullptr, one.dtype, one.second, device));
    const kiln::CompileRequest request = kiln::compile_requests(one.op, inputs, {}, target).front();
    kiln::ArtifactCache cold(root, std::int64_t{1} << 30);
    auto start = Clock::now();
    const auto built = cold.get(request, compiler);
    const double cold_us = elapsed_us(start);
    kiln::ArtifactCache warm(root, std::int64_t{1} << 30);
    start = Clock::now();
    const auto found = warm.get(request, compiler);
    const double disk_us = elapsed_us(start);
    std::vector<double> compile_us;
    for (int i = 0; i < 5; ++i) compile_us.push_back(static_cast<double>(compiler.compile(request).compile_time_us));
    nlohmann::json row = {{"op", one.op},
                          {"dtype", kiln::name(one.dtype)},
                          {"kernel", built.artifact->name},
                          {"first_in_process", !warmed},
                          {"first_compile_us", built.artifact->compile_time_us},
                          {"compile", summary(compile_us)},
                          {"cold_get_us", cold_us},
                          {"disk_get_us", disk_us},
                          {"code_bytes", found.artifact->code.size()}};
    if (can_load) {
      start = Clock::now();
      const auto kernel = kiln::load_kernel(*found.artifact, device);
      row["load_us"] = elapsed_us(start);
      const kiln::KernelResources resources = kernel->resources();
      row["registers"] = resources.registers;
      row["local_bytes"] = resources.local_bytes;
    }
    rows.push_back(row);
    warmed = true;
  }
  std::filesystem::remove_all(root);
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "", where = argc > 2 ? argv[2] : "";
    if ((what != "launch" && what != "compile") || where.empty()) {
      std::fprintf(stderr, "usage: host_benchmark launch|compile cpu|cuda|sm_XX\n");
      return 2;
    }
    nlohmann::json result;
    if (where.starts_with("sm_")) {
      result = compile_costs(kiln::Device::cuda(), kiln::parse_cuda_target(where), false);
    } else {
      const kiln::Device device = kiln::parse_device(where);
      result = what == "launch" ? launch_costs(device) : compile_costs(device, kiln::target_of(device), true);
    }
    std::printf("%s\n", result.dump(1).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "host_benchmark: %s\n", error.what());
    return 1;
  }
}
