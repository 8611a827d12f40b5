#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kiln::test {

/// How much of what there is to sweep over a run takes: KILN_SWEEP.
enum class SweepAmount {
  part,   ///< a part drawn by the seed: the everyday run, and what holds where KILN_SWEEP is not set
  whole,  ///< every op, dtype and architecture, with some random calls of each, and a drawn part of what compiles
          ///< kernels for minutes: `scripts/test all`
  full,   ///< every config too, and ten times the random calls: hours
};

/// Throws: std::invalid_argument, where KILN_SWEEP is another word.
inline SweepAmount sweep_amount() {
  const char* value = std::getenv("KILN_SWEEP");
  const std::string word = value == nullptr ? "part" : value;
  if (word == "part") return SweepAmount::part;
  if (word == "whole") return SweepAmount::whole;
  if (word == "full") return SweepAmount::full;
  throw std::invalid_argument("KILN_SWEEP is \"" + word + "\"; expected part, whole or full");
}

/// KILN_TEST_SEED, which repeats a run, else another one in each process. Tests print it where they fail.
inline std::uint64_t sweep_seed() {
  static const char* const value = std::getenv("KILN_TEST_SEED");
  static const std::uint64_t seed = value != nullptr ? std::strtoull(value, nullptr, 10) : std::random_device{}();
  return seed;
}

/// `count` of `values`, drawn.
template <typename T>
std::vector<T> drawn(std::vector<T> values, std::size_t count, std::mt19937_64& random) {
  std::shuffle(values.begin(), values.end(), random);
  values.resize(std::min(values.size(), count));
  return values;
}

/// All of `values`; in the everyday run `few` of them, drawn.
template <typename T>
std::vector<T> swept(std::vector<T> values, std::size_t few, std::mt19937_64& random) {
  return sweep_amount() == SweepAmount::part ? drawn(std::move(values), few, random) : values;
}

/// The same of values that take long: a whole sweep takes half of them.
template <typename T>
std::vector<T> swept_by_halves(std::vector<T> values, std::size_t few, std::mt19937_64& random) {
  const std::size_t half = (values.size() + 1) / 2;
  return sweep_amount() == SweepAmount::whole ? drawn(std::move(values), half, random) : swept(values, few, random);
}

/// One of values for which kernels of their own are compiled, another one each time; in a full sweep all of them.
template <typename T>
std::vector<T> one_drawn(std::vector<T> values) {
  static std::mt19937_64 random(sweep_seed());
  return sweep_amount() == SweepAmount::full ? values : drawn(std::move(values), 1, random);
}

/// The architectures that kernels are compiled for without a GPU; in the everyday run one of them.
inline std::vector<std::string> swept_architectures(std::mt19937_64& random) {
  return swept<std::string>({"sm_80", "sm_90a", "sm_100a"}, 1, random);
}

}  // namespace kiln::test
