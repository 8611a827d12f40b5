// add f32 on the CPU: Kiln beside a hand-written loop with the same threads, in turn.
//   cpu_benchmark ELEMENTS      (KILN_NUM_THREADS bounds both)

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "benchmarks/hand_written.hpp"
#include "core/environment.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "runtime/device_info.hpp"
#include "runtime/event_timer.hpp"

int main(int argc, char** argv) {
  const std::int64_t n = argc > 1 ? std::atoll(argv[1]) : 0;
  if (n <= 0) {
    std::fprintf(stderr, "usage: cpu_benchmark ELEMENTS\n");
    return 2;
  }
  const int threads = kiln::device_info(kiln::Device::cpu()).processors;
  oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(threads));
  const kiln::Tensor x = kiln::empty({n}, kiln::DType::f32, kiln::Device::cpu());
  const kiln::Tensor y = kiln::empty({n}, kiln::DType::f32, kiln::Device::cpu());
  const kiln::Tensor mine = kiln::empty({n}, kiln::DType::f32, kiln::Device::cpu());
  const kiln::Tensor theirs = kiln::empty({n}, kiln::DType::f32, kiln::Device::cpu());
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (std::int64_t i = 0; i < n; ++i) {
    x.data_as<float>()[i] = uniform(random);
    y.data_as<float>()[i] = uniform(random);
  }
  const std::vector<kiln::TensorView> inputs{x, y}, outputs{mine};
  const kiln::ResolvedOp add = kiln::resolve("add", inputs);
  const kiln::Stream stream = kiln::Stream::default_of(kiln::Device::cpu());
  const auto kiln_add = [&] { add(inputs, outputs, stream); };
  const auto hand_add = [&] {
    oneapi::tbb::parallel_for(
        oneapi::tbb::blocked_range<std::int64_t>(0, n),
        [&](const auto& range) {
          hand_written_add(x.data_as<float>(), y.data_as<float>(), theirs.data_as<float>(), range.begin(), range.end());
        },
        oneapi::tbb::static_partitioner{});
  };
  using Clock = std::chrono::steady_clock;
  std::vector<double> kiln_us, hand_us;
  const int rounds = n > (1 << 24) ? 40 : 400;
  for (int round = -3; round < rounds; ++round) {
    const auto sample = [&](const auto& call, std::vector<double>& samples) {
      const auto start = Clock::now();
      call();
      if (round >= 0) samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    };
    if (round % 2 == 0) {
      sample(kiln_add, kiln_us);
      sample(hand_add, hand_us);
    } else {
      sample(hand_add, hand_us);
      sample(kiln_add, kiln_us);
    }
  }
  if (!std::equal(mine.data_as<float>(), mine.data_as<float>() + n, theirs.data_as<float>())) {
    std::fprintf(stderr, "cpu_benchmark: the two results differ\n");
    return 1;
  }
  const auto row = [n](const std::vector<double>& samples) -> nlohmann::json {
    const kiln::TimingSummary s = kiln::summarize(samples);
    return {{"median_us", s.median_us},
            {"p10_us", s.p10_us},
            {"p90_us", s.p90_us},
            {"gb_s", 12e-3 * static_cast<double>(n) / s.median_us}};
  };
  const nlohmann::json result = {
      {"op", "add f32"},
      {"elements", n},
      {"threads", threads},
      {"kiln", row(kiln_us)},
      {"hand_written", row(hand_us)},
      {"kiln_speed_over_hand_written", kiln::summarize(hand_us).median_us / kiln::summarize(kiln_us).median_us}};
  std::printf("%s\n", result.dump(1).c_str());
}
