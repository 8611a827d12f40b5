#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "autotune/candidate.hpp"

namespace kiln::synthetic {

/// True times of every candidate, and which of them do not run.
struct Surface {
  std::string name;
  std::vector<Candidate> candidates;
  std::vector<double> cost_us;
  std::vector<bool> fails;
  std::size_t default_index = 0;

  double best_us() const {
    double best = cost_us[default_index];
    for (std::size_t i = 0; i < cost_us.size(); ++i)
      if (!fails[i]) best = std::min(best, cost_us[i]);
    return best;
  }
};

inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9U;
  return x ^ (x >> 32);
}

/// Standard normal, the same for the same number: what a model of a kernel leaves out (bank conflicts, code alignment).
inline double texture(std::uint64_t number) {
  const double u = (static_cast<double>(mixed(number) >> 11) + 0.5) * 0x1p-53;
  const double v = (static_cast<double>(mixed(~number) >> 11) + 0.5) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

/// `cost_us` gives a config's time, or 0 for one that does not run; a texture of 1% (standard deviation) comes on top.
inline Surface surface_of(std::string name, const ConfigSpace& space, const Config& fallback,
                          const std::function<double(const Config&)>& cost_us) {
  Surface surface{.name = std::move(name), .candidates = candidates_of(space), .cost_us = {}, .fails = {}};
  surface.default_index = index_of(surface.candidates, fallback);
  for (std::size_t i = 0; i < surface.candidates.size(); ++i) {
    const double cost = cost_us(surface.candidates[i].config);
    surface.fails.push_back(cost <= 0);
    surface.cost_us.push_back(cost * std::exp(0.01 * texture(i + 1)));
  }
  return surface;
}

/// Measures a surface as a busy machine would. All times are of the surface's, made worse by
///   jitter   1.5% standard deviation, with a tail to the slow side
///   drift    a clock that swings by 4% both ways, and drops by 6% for good at some moment
///   spikes   one sample in a hundred takes 1.5 to 5 times as long
///   warm-up  a candidate's first call takes three times as long, and a clock that starts 20% low
///   timer    steps of 32 ns
/// and where asked for
///   place    a copy of a candidate takes so much more or less (share, standard deviation) for as long as the process
///            lives; the samples of a playoff go through `places` copies, those before it are of the first
class Machine {
 public:
  Machine(const Surface& surface, std::uint64_t seed, double place_share = 0, std::uint64_t places = 1)
      : surface_(surface),
        random_(seed),
        calls_(surface.candidates.size()),
        seed_(seed),
        place_share_(place_share),
        places_(places) {
    swing_period_us_ = 2e5 * (1 + 9 * uniform());
    swing_phase_ = 2 * std::numbers::pi * uniform();
    drop_time_us_ = 1e6 * uniform();
  }

  std::vector<double> measure(std::size_t candidate, int samples, std::optional<int> round = {}) {
    std::vector<double> times_us;
    for (int i = 0; i < samples; ++i) {
      const std::uint64_t place = round ? static_cast<std::uint64_t>(*round * samples + i) % places_ : 0;
      const double at_place = 1 + place_share_ * texture(mixed(seed_ * 1'000'003 + candidate) + place);
      times_us.push_back(sample(candidate, at_place));
    }
    return times_us;
  }
  double now_us() const { return now_us_; }

 private:
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  double sample(std::size_t candidate, double at_place) {
    double slowdown =
        at_place * (1 + 0.04 * std::sin(2 * std::numbers::pi * now_us_ / swing_period_us_ + swing_phase_));
    if (now_us_ > drop_time_us_) slowdown *= 1.06;
    slowdown *= 1 + 0.2 * std::exp(-now_us_ / 2e3);
    slowdown *= std::exp(0.012 * texture(random_()) + 0.009 * std::abs(texture(random_())));
    if (uniform() < 0.01) slowdown *= 1.5 + 3.5 * uniform();
    if (calls_[candidate]++ == 0) slowdown *= 3;
    const double time_us = surface_.cost_us[candidate] * slowdown;
    now_us_ += time_us;
    return std::max(1.0, std::round(time_us / 0.032)) * 0.032;
  }

  const Surface& surface_;
  std::mt19937_64 random_;
  std::vector<int> calls_;
  std::uint64_t seed_;
  double place_share_;
  std::uint64_t places_;
  double now_us_ = 0;
  double swing_period_us_, swing_phase_, drop_time_us_;
};

/// bf16 4096^3 on 132 processors by tiles: waves, occupancy, latency hiding, L2 reuse, registers that run out.
inline Surface matmul_surface() {
  const ConfigSpace space({{"BLOCK_M", {16, 32, 64, 128, 256}},
                           {"BLOCK_N", {16, 32, 64, 128, 256}},
                           {"BLOCK_K", {16, 32, 64, 128}},
                           {"GROUP_M", {1, 4, 8, 16}},
                           {"num_warps", {2, 4, 8, 16}},
                           {"num_stages", {2, 3, 4}}},
                          {{"shared memory",
                            [](const Config& c) {
                              return (c.at("BLOCK_M") + c.at("BLOCK_N")) * c.at("BLOCK_K") * 2 * c.at("num_stages") <=
                                     227 * 1024;
                            }},
                           {"registers", [](const Config& c) {
                              return c.at("BLOCK_M") * c.at("BLOCK_N") <= 128 * 32 * c.at("num_warps") &&
                                     c.at("BLOCK_M") * c.at("BLOCK_N") >= 16 * 16 * c.at("num_warps");
                            }}});
  return surface_of(
      "matmul", space,
      {{"BLOCK_M", 64}, {"BLOCK_N", 64}, {"BLOCK_K", 32}, {"GROUP_M", 8}, {"num_warps", 4}, {"num_stages", 3}},
      [](const Config& c) {
        const auto m = static_cast<double>(c.at("BLOCK_M")), n = static_cast<double>(c.at("BLOCK_N"));
        const auto k = static_cast<double>(c.at("BLOCK_K")), stages = static_cast<double>(c.at("num_stages"));
        const auto warps = static_cast<double>(c.at("num_warps")), group = static_cast<double>(c.at("GROUP_M"));
        const double shared = (m + n) * k * 2 * stages;
        const double registers = m * n / (32 * warps) + 40;
        const double resident = std::max(
            1.0, std::floor(std::min({227 * 1024 / shared, 64 / warps, 65536 / (registers * 32 * warps), 16.0})));
        const double tiles = std::ceil(4096 / m) * std::ceil(4096 / n);
        const double waves = std::ceil(tiles / (132 * resident)) * 132 * resident / tiles;
        const double hidden = 1 - std::exp(-0.8 * stages * std::sqrt(resident) * k / 64);
        const double math_us = 2 * 4096.0 * 4096.0 * 4096.0 / 800e6;
        const double intensity = m * n / (m + n);
        const double shared_limit = std::max(1.0, 48 / intensity);
        const double loop = 1 + 6 / k;
        const double spill = registers > 168 ? 1 + (registers - 168) / 100 : 1;
        const double l2 = 1 + 0.12 * std::abs(std::log2(group / 8)) / 3;
        const double issue = 1 + 0.08 * std::abs(std::log2(m * n / warps / 2048));
        return math_us * waves / hidden * shared_limit * loop * spill * l2 * issue;
      });
}

/// A product of a few microseconds: half of that is its launch, and dozens of configs are within 2% of the best.
inline Surface short_matmul_surface() {
  Surface surface = matmul_surface();
  surface.name = "short matmul";
  const double best_us = surface.best_us();
  for (double& cost_us : surface.cost_us) cost_us = 4 + 4 * std::sqrt(cost_us / best_us);
  return surface;
}

/// 2^20 f32 elements: bandwidth decides, so most configs are as fast as the default.
inline Surface elementwise_surface() {
  const ConfigSpace space({{"BLOCK_SIZE", {128, 256, 512, 1024, 2048, 4096}}, {"num_warps", {1, 2, 4, 8}}}, {});
  return surface_of("elementwise", space, {{"BLOCK_SIZE", 1024}, {"num_warps", 4}}, [](const Config& c) {
    const double per_thread = static_cast<double>(c.at("BLOCK_SIZE")) / static_cast<double>(32 * c.at("num_warps"));
    const double loads = per_thread < 4 ? 4 / per_thread : 1;
    const double registers = per_thread > 32 ? per_thread / 32 : 1;
    return 4 + 3.2 * std::sqrt(loads) * registers;
  });
}

/// No config is better than another.
inline Surface plateau_surface() {
  Surface surface = elementwise_surface();
  surface.name = "plateau";
  std::fill(surface.cost_us.begin(), surface.cost_us.end(), 50);
  return surface;
}

/// A transpose with bank conflicts (cliffs), and a tenth of its configs broken.
inline Surface transpose_surface() {
  const ConfigSpace space({{"BLOCK_R", {8, 16, 32, 64, 128}},
                           {"BLOCK_C", {8, 16, 32, 64, 128}},
                           {"PADDING", {0, 1, 2, 4}},
                           {"num_warps", {1, 2, 4, 8}}},
                          {});
  return surface_of(
      "transpose", space, {{"BLOCK_R", 32}, {"BLOCK_C", 32}, {"PADDING", 0}, {"num_warps", 4}}, [](const Config& c) {
        const std::int64_t rows = c.at("BLOCK_R"), columns = c.at("BLOCK_C"), padding = c.at("PADDING");
        if (mixed(static_cast<std::uint64_t>(((rows * 131 + columns) * 7 + padding) * 17 + c.at("num_warps"))) % 10 ==
            0)
          return 0.0;
        const double conflicts = padding == 0 ? 2.2 : 1 + 0.1 * std::log2(static_cast<double>(padding));
        const double line = 1 + 16 / static_cast<double>(std::min(rows, columns) * 4);
        const double per_thread = static_cast<double>(rows * columns) / static_cast<double>(32 * c.at("num_warps"));
        const double work = 1 + 0.15 * std::abs(std::log2(per_thread / 8));
        return 40 * conflicts * line * work;
      });
}

/// Random effects of each tunable and of each pair of them, no shape that a strategy could be made for.
inline Surface rugged_surface() {
  std::vector<Tunable> tunables;
  for (const char* name : {"A", "B", "C", "D", "E"}) tunables.push_back({name, {1, 2, 4, 8, 16}});
  return surface_of("rugged", ConfigSpace(tunables, {}), {{"A", 4}, {"B", 4}, {"C", 4}, {"D", 4}, {"E", 4}},
                    [](const Config& c) {
                      double log_cost = 0;
                      for (std::size_t i = 0; i < c.entries().size(); ++i) {
                        const auto a = static_cast<std::uint64_t>(c.entries()[i].second) * 64 + i;
                        log_cost += 0.15 * texture(a * 7919);
                        for (std::size_t j = 0; j < i; ++j) {
                          const auto b = static_cast<std::uint64_t>(c.entries()[j].second) * 64 + j;
                          log_cost += 0.06 * texture((a * 4096 + b) * 104729);
                        }
                      }
                      return 100 * std::exp(log_cost);
                    });
}

}  // namespace kiln::synthetic
