#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "registry/dispatch.hpp"
#include "registry/registry.hpp"
#include "registry/validation.hpp"
#include "tests/registry/device_tensors.hpp"
#include "tests/registry/guarded_tensor.hpp"

namespace kiln {
namespace {

constexpr int kThreads = 16;
constexpr std::size_t kOps = 50;
/// A shape that no other test dispatches, so the first round is cold.
constexpr std::int64_t kElements = 1237;

struct Job {
  std::string op;
  Attributes attributes;
  std::vector<Tensor> inputs;
  std::vector<std::byte> expected;
  DType dtype;
  Tolerance tolerance;
};

std::vector<Job> make_jobs(Device device, std::mt19937_64& random) {
  std::vector<Job> jobs;
  for (const std::string& name : Registry::process().names()) {
    const OpSpec& spec = Registry::process().get(name);
    if (!spec.reference || spec.examples.empty() || jobs.size() == kOps) continue;
    std::vector<testing::GuardedTensor> inputs;
    std::vector<TensorView> views;
    for (std::size_t i = 0; i < spec.examples[0].inputs.size(); ++i) {
      inputs.emplace_back(spec.examples[0].inputs[i].dtype, Dims{kElements}, testing::dense_layout({kElements}));
      inputs.back().fill_random(i < spec.input_ranges.size() ? spec.input_ranges[i] : InputRange{}, false, random);
      views.push_back(inputs.back().host_view());
    }
    const Attributes complete = complete_attributes(spec, spec.examples[0].attributes);
    const TensorMeta meta = spec.infer(views, complete).at(0);
    const Tensor expected = empty(meta.shape, meta.dtype, Device::cpu());
    const TensorView outputs[] = {expected.view()};
    spec.reference({views, outputs, complete});
    Job job{name, spec.examples[0].attributes, {}, {}, meta.dtype, spec.tolerance(meta.dtype)};
    for (testing::GuardedTensor& input : inputs) job.inputs.push_back(input.upload(device));
    job.expected.resize(static_cast<std::size_t>(kElements * itemsize_bytes(meta.dtype)));
    std::memcpy(job.expected.data(), expected.data(), job.expected.size());
    jobs.push_back(std::move(job));
  }
  return jobs;
}

/// The first wrong element, or empty.
std::string check(const Job& job, const Tensor& result) {
  const Tensor host = to_device(result, Device::cpu());
  for (std::int64_t offset = 0; offset < static_cast<std::int64_t>(job.expected.size());
       offset += itemsize_bytes(job.dtype))
    if (!testing::element_matches(job.dtype, host.data_as<std::byte>() + offset, job.expected.data() + offset,
                                  job.tolerance))
      return job.op + ": element " + std::to_string(offset / itemsize_bytes(job.dtype)) + " is " +
             testing::show_element(job.dtype, host.data_as<std::byte>() + offset) + ", expected " +
             testing::show_element(job.dtype, job.expected.data() + offset);
  return {};
}

TEST(ThreadSafetyTest, ManyThreadsColdAndWarm) {
  const std::vector<Device> devices = testing::available_devices();
  if (devices.empty()) GTEST_SKIP() << compiler_problem(DeviceType::cpu);
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const Device device : devices) {
    const std::vector<Job> jobs = make_jobs(device, random);
    ASSERT_EQ(jobs.size(), kOps);
    std::mutex mutex;
    std::set<std::string> problems, artifacts;
    const std::size_t entries_before = ArtifactCache::process().disk().list(false).size();
    const auto builds_before = ArtifactCache::process().counters().builds;
    std::barrier start(kThreads);
    const auto work = [&](int thread) {
      std::mt19937_64 order(seed + static_cast<std::uint64_t>(thread));
      std::vector<std::size_t> turns(jobs.size());
      std::iota(turns.begin(), turns.end(), std::size_t{0});
      for (int round = 0; round < 3;
           ++round) {  // the first is cold, all threads on the same op at first; then each in its own order
        start.arrive_and_wait();
        for (const std::size_t turn : turns) {
          const Job& job = jobs[turn];
          std::string problem, artifact;
          try {
            problem = check(job, dispatch_gpu_op(job.op, job.inputs, job.attributes));
            const std::vector<TensorView> views(job.inputs.begin(), job.inputs.end());
            artifact = resolve(job.op, views, job.attributes).report().kernels.at(0).artifact_key;
          } catch (const Error& error) {
            problem = job.op + ": " + error.what();
          }
          const std::lock_guard lock(mutex);
          artifacts.insert(artifact);
          if (!problem.empty()) problems.insert(problem);
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
  const std::vector<Device> devices = testing::available_devices();
  if (devices.empty()) GTEST_SKIP() << compiler_problem(DeviceType::cpu);
  const Tensor x = testing::make_f32({1, 2, 3}, devices[0]);
  std::atomic<bool> stop{false};
  std::thread registering([&] {
    for (int i = 0; i < 200; ++i)
      register_elementwise_kernel({.name = "user_race_" + std::to_string(i),
                                   .doc = "",
                                   .source = {"race.hpp", "// never compiled", {}},
                                   .kernel = "race"});
    stop = true;
  });
  while (!stop) EXPECT_EQ(testing::read_f32(dispatch_gpu_op("neg", {x})), (std::vector<float>{-1, -2, -3}));
  registering.join();
  EXPECT_NE(Registry::process().find("user_race_199"), nullptr);
}

}  // namespace
}  // namespace kiln
