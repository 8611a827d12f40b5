#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "registry/user_ops/user_op.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

constexpr int kThreads = 16;
constexpr std::size_t kOps = 50;
/// A shape that no other test dispatches, so the first round is cold.
constexpr std::int64_t kElements = 1237;

/// The op's largest example of a usable size: for some ops a plan of several kernels that share scratch memory.
Example largest_example(const OpSpec& spec) {
  const auto elements = [](const Example& example) {
    return example.inputs.empty() ? 0 : num_elements(example.inputs[0].shape);
  };
  Example largest = spec.examples[0];
  for (const Example& example : spec.examples)
    if (elements(example) > elements(largest) && elements(example) <= 500'000) largest = example;
  return largest;
}

/// 50 ops: all sorts, since they are taken in random order.
std::vector<OpCase> make_cases(Device device, std::mt19937_64& random) {
  std::vector<OpCase> cases;
  std::vector<std::string> names = Registry::process().names();
  std::shuffle(names.begin(), names.end(), random);
  for (const std::string& name : names) {
    const OpSpec& spec = Registry::process().get(name);
    if (!spec.reference || spec.examples.empty() || spec.inputs.empty() || spec.outputs.empty() || cases.size() == kOps)
      continue;  // an op that changes its inputs is no job for many threads over one set of them
    Example example = spec.random_example ? largest_example(spec) : spec.examples[0];
    if (!spec.random_example)
      for (TensorMeta& meta : example.inputs) meta.shape = Dims{kElements};
    cases.emplace_back(spec, example, device, random());
  }
  return cases;
}

TEST(ThreadSafetyTest, ManyThreadsColdAndWarm) {
  const std::vector<Device> devices = available_devices();
  if (devices.empty()) GTEST_SKIP() << compiler_problem(DeviceType::cpu);
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const Device device : devices) {
    const std::vector<OpCase> cases = make_cases(device, random);
    ASSERT_EQ(cases.size(), kOps);
    std::mutex mutex;
    std::set<std::string> problems, artifacts;
    const std::size_t entries_before = ArtifactCache::process().disk().list(false).size();
    const auto builds_before = ArtifactCache::process().counters().builds;
    std::barrier start(kThreads);
    const auto work = [&](int thread) {
      std::mt19937_64 order(seed + static_cast<std::uint64_t>(thread));
      std::vector<std::size_t> turns(cases.size());
      std::iota(turns.begin(), turns.end(), std::size_t{0});
      for (int round = 0; round < 3;
           ++round) {  // the first is cold, all threads on the same op at first; then each in its own order
        start.arrive_and_wait();
        for (const std::size_t turn : turns) {
          const OpCase& one = cases[turn];
          std::string problem, artifact;
          try {
            problem = one.difference(dispatch_gpu_op_all(one.op(), one.inputs(), one.attributes()),
                                     Stream::default_of(device));
            artifact = resolve(one.op(), views_of(one.inputs()), one.attributes()).report().kernels.at(0).artifact_key;
          } catch (const Error& error) {
            problem = error.what();
          }
          const std::lock_guard lock(mutex);
          artifacts.insert(artifact);
          if (!problem.empty()) problems.insert(one.op() + ": " + problem);
        }
        std::shuffle(turns.begin(), turns.end(), order);
      }
    };
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(problems, std::set<std::string>{}) << to_string(device);
    // Every build made an entry of its own: none was built twice.
    EXPECT_EQ(ArtifactCache::process().counters().builds - builds_before,
              static_cast<std::int64_t>(ArtifactCache::process().disk().list(false).size() - entries_before))
        << to_string(device);
    EXPECT_GE(artifacts.size(), kOps - 5) << to_string(device);
  }
}

TEST(ThreadSafetyTest, RegisteringWhileDispatching) {
  const std::vector<Device> devices = available_devices();
  if (devices.empty()) GTEST_SKIP() << compiler_problem(DeviceType::cpu);
  const Tensor x = make_f32({1, 2, 3}, devices[0]);
  std::atomic<bool> stop{false};
  std::thread registering([&] {
    for (int i = 0; i < 200; ++i)
      register_elementwise_kernel({.name = "user_race_" + std::to_string(i),
                                   .doc = "",
                                   .source = {"race.hpp", "// never compiled", {}},
                                   .kernel = "race"});
    stop = true;
  });
  while (!stop) EXPECT_EQ(read_f32(dispatch_gpu_op("neg", {x})), (std::vector<float>{-1, -2, -3}));
  registering.join();
  EXPECT_NE(Registry::process().find("user_race_199"), nullptr);
}

}  // namespace
}  // namespace kiln::test
