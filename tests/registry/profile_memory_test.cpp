// Copies, sets and regions on GPUs, from records made by hand.

#include "registry/profiling/profile_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/profiling/device_region.hpp"
#include "registry/profiling/profiler.hpp"
#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using Place = MemoryActivity::Place;
using testing::HasSubstr;
using testing::Not;

ProfileTime at_us(std::int64_t us) {
  return ProfileTime(std::chrono::microseconds(us));
}

MemoryActivity copy(Place from, Place to, std::int64_t bytes, std::int64_t start_us, std::int64_t end_us) {
  return {.is_set = false,
          .from = from,
          .to = to,
          .device_index = 0,
          .bytes = bytes,
          .start = at_us(start_us),
          .end = at_us(end_us)};
}

TEST(ProfileMemoryTest, KindsAndDevicesHaveRows) {
  MemoryActivity elsewhere = copy(Place::pinned, Place::device, 1000, 0, 1);
  elsewhere.device_index = 1;
  MemoryActivity set;
  set.is_set = true;
  set.bytes = 4096;
  set.start = at_us(5);
  set.end = at_us(7);
  const std::vector<MemoryActivity> activities = {copy(Place::pinned, Place::device, 1'000'000, 0, 20), set,
                                                  copy(Place::pinned, Place::device, 3'000'000, 30, 90),
                                                  copy(Place::device, Place::pageable, 8, 100, 103), elsewhere};
  const std::vector<ProfileMemoryRow> rows = memory_rows(activities);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].name, "copy pinned to device");
  EXPECT_EQ(rows[0].device, Device::cuda(0));
  EXPECT_EQ(rows[0].bytes, 4e6);
  EXPECT_EQ(rows[0].time.count, 2U);
  EXPECT_DOUBLE_EQ(rows[0].time.total_us, 80);
  EXPECT_DOUBLE_EQ(rows[0].time.max_us, 60);
  EXPECT_DOUBLE_EQ(rows[0].gb_s, 50);
  EXPECT_EQ(rows[1].name, "copy device to pageable");
  EXPECT_EQ(rows[2].name, "set");
  EXPECT_DOUBLE_EQ(rows[2].gb_s, 2.048);
  EXPECT_EQ(rows[3].device, Device::cuda(1));
  EXPECT_TRUE(memory_rows({}).empty());
}

TEST(ProfileMemoryTest, ATimeOfNothingHasNoRate) {
  const std::vector<ProfileMemoryRow> rows = memory_rows(std::vector{copy(Place::managed, Place::unknown, 1000, 3, 3)});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].name, "copy managed to unknown");
  EXPECT_EQ(rows[0].gb_s, 0);
}

TEST(ProfileMemoryTest, TheTableShowsThem) {
  ProfileReport report;
  EXPECT_THAT(to_string(report), Not(HasSubstr("copies and sets")));
  report.memory = memory_rows(std::vector{copy(Place::pinned, Place::device, 1 << 20, 0, 20)});
  const std::string text = to_string(report);
  EXPECT_THAT(text, HasSubstr("copies and sets"));
  EXPECT_THAT(text, HasSubstr("copy pinned to device  cuda:0  1      1.0 MiB"));
  EXPECT_THAT(text, HasSubstr("52.43"));
}

class ProfileMemoryGpuTest : public GpuKernelTest {};

TEST_F(ProfileMemoryGpuTest, CopiesAndSetsAreSeenAndRegionsHaveTheirSpan) {
  const Tensor host = make_f32(std::vector<float>(1 << 20, 1.0f));
  const Tensor x = to_device(host.view(), kDevice);
  dispatch_gpu_op("neg", {x});  // what is cold about it
  std::optional<Profiler> profiler;
  try {
    profiler.emplace(ProfilerOptions{.device_time_source = DeviceTimeSource::cupti});
    dispatch_gpu_op("neg", {x});  // CUPTI begins at the first launch
  } catch (const DeviceError& error) {
    GTEST_SKIP() << error.what();
  }
  {
    const ProfilerRegion region("copying");
    dispatch_gpu_op("neg", {to_device(host.view(), kDevice)});
    synchronize(Stream::default_of(kDevice));
  }
  const ProfileReport report = profiler->report();
  const auto copied = std::ranges::find_if(
      report.memory, [](const ProfileMemoryRow& row) { return row.name.starts_with("copy ") && row.bytes >= 4 << 20; });
  ASSERT_NE(copied, report.memory.end()) << to_string(report);
  EXPECT_TRUE(copied->name.ends_with(" to device")) << copied->name;
  EXPECT_EQ(copied->device, kDevice);
  EXPECT_GT(copied->gb_s, 0.5);
  EXPECT_LT(copied->gb_s, 2000);
  const TemporaryDirectory directory;
  profiler->write_trace(directory.file("trace.json"));
  const std::string trace = read_text(directory.file("trace.json"));
  EXPECT_THAT(trace, HasSubstr("\"cat\": \"memory\""));
  EXPECT_THAT(trace, HasSubstr("\"name\": \"copying\", \"cat\": \"device_region\""));
}

class DeviceRegionTest : public testing::Test {
 protected:
  DeviceRegionTest() {
    thread_.region_nodes.push_back({"decode", 0});
    thread_.region_nodes.push_back({"attention", 1});
    thread_.region_nodes.push_back({"other", 0});
  }
  void call(std::uint32_t region, std::int64_t host_us, std::int64_t device_us, std::int64_t took_us,
            Device device = Device::cuda(0)) {
    CallRecord& record = thread_.calls.emplace_back();
    record.stream.device = device;
    record.region = region;
    record.start = at_us(host_us);
    record.end = at_us(host_us + 1);
    record.device_start = at_us(device_us);
    record.device_end = at_us(device_us + took_us);
    record.device_us = static_cast<double>(took_us);
  }
  void region(std::uint32_t number, std::int64_t start_us, std::int64_t end_us) {
    thread_.regions.push_back({number, at_us(start_us), at_us(end_us)});
  }
  ThreadRecords thread_;
};

TEST_F(DeviceRegionTest, SpansTheirCallsAndThoseOfInnerRegions) {
  call(1, 10, 100, 5);
  call(2, 12, 110, 20);
  call(3, 14, 500, 5);  // of a region that is not inside it
  call(1, 30, 200, 5);  // of its second entry
  region(2, 11, 13);
  region(1, 9, 16);
  region(1, 29, 32);
  region(3, 50, 60);  // without calls
  const std::vector<DeviceRegion> spans = device_regions(thread_);
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0].region, 2U);
  EXPECT_EQ(spans[0].start, at_us(110));
  EXPECT_EQ(spans[0].end, at_us(130));
  EXPECT_EQ(spans[1].region, 1U);
  EXPECT_EQ(spans[1].start, at_us(100));
  EXPECT_EQ(spans[1].end, at_us(130));
  EXPECT_EQ(spans[2].start, at_us(200));
}

TEST_F(DeviceRegionTest, EachGpuHasItsOwnAndTheCpuNone) {
  call(1, 10, 100, 5);
  call(1, 11, 300, 5, Device::cuda(1));
  call(1, 12, 12, 1, Device::cpu());
  call(1, 13, 0, 0);
  thread_.calls.back().device_us = -1;  // not known
  region(1, 9, 20);
  const std::vector<DeviceRegion> spans = device_regions(thread_);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].end, at_us(105));
  EXPECT_EQ(spans[1].device, Device::cuda(1));
  EXPECT_EQ(spans[1].start, at_us(300));
}

}  // namespace
}  // namespace kiln::test
