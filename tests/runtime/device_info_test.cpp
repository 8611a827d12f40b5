#include "runtime/device_info.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TEST(DeviceInfo, DescribesTheCpu) {
  EXPECT_EQ(device_count(DeviceType::cpu), 1);
  EXPECT_TRUE(device_problem(DeviceType::cpu).empty());
  const DeviceInfo& info = device_info(Device::cpu());
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.target.type, DeviceType::cpu);
  EXPECT_GE(info.processors, 1);
  EXPECT_GT(info.memory_bytes, std::int64_t{1} << 28);
  EXPECT_EQ(info.driver_version, 0);
  EXPECT_EQ(&info, &device_info(Device::cpu())) << "queried once";
}

TEST(DeviceInfo, ThreadCountIsReadFromTheEnvironmentAndChecked) {
  // Cached per process, so each value needs a fresh one.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("KILN_NUM_THREADS", "1", 1);
        std::_Exit(device_info(Device::cpu()).processors == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("KILN_NUM_THREADS", "0", 1);
        try {
          device_info(Device::cpu());
        } catch (const UsageError& error) {
          std::_Exit(std::string(error.what()).find("KILN_NUM_THREADS") != std::string::npos ? 0 : 1);
        }
        std::_Exit(2);
      },
      testing::ExitedWithCode(0), "");
}

TEST(DeviceInfo, RefusesDevicesThatAreNotThere) {
  EXPECT_THROW(device_info({DeviceType::cpu, 1}), UsageError);
  EXPECT_THROW(device_info(Device::cuda(-1)), UsageError);
  EXPECT_THAT(value_error([] { device_info(Device::cuda(99)); }), HasSubstr("cuda:99"));
}

TEST(DeviceInfo, SaysWhyThereIsNoCudaDevice) {
  const int count = device_count(DeviceType::cuda);
  const std::string problem = device_problem(DeviceType::cuda);
  EXPECT_EQ(count == 0, !problem.empty()) << count << " devices, problem '" << problem << "'";
}

TEST(DeviceInfo, DescribesEveryCudaDeviceFromManyThreads) {
  const int count = device_count(DeviceType::cuda);
  if (count == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([count] {
      for (int ordinal = 0; ordinal < count; ++ordinal) EXPECT_FALSE(device_info(Device::cuda(ordinal)).name.empty());
    });
  for (std::thread& thread : threads) thread.join();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const DeviceInfo& info = device_info(Device::cuda(ordinal));
    EXPECT_TRUE(info.target.arch.starts_with("sm_")) << info.target.arch;
    EXPECT_GT(info.processors, 0);
    EXPECT_GT(info.memory_bytes, std::int64_t{1} << 30);
    EXPECT_GT(info.l2_bytes, 0);
    EXPECT_GE(info.shared_bytes_per_block, 48 * 1024);
    EXPECT_GE(info.driver_version, 12000);
    const std::int32_t in_clusters = cluster_processors(Device::cuda(ordinal));
    EXPECT_EQ(in_clusters % kClusterPrograms, 0);
    EXPECT_LE(in_clusters, info.processors);
    EXPECT_EQ(in_clusters > 0, info.target.arch.starts_with("sm_9")) << info.target.arch;
  }
}

TEST(DeviceInfo, CpusHaveNoClusters) {
  EXPECT_EQ(cluster_processors(Device::cpu()), 0);
}

}  // namespace
}  // namespace kiln::test
