#include "registry/inspection/measured_peak.hpp"

#include <thread>

#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory_usage.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

using MeasuredPeakTest = DevicesTest;

TEST_F(MeasuredPeakTest, IsPlausibleAndMeasuredOnce) {
  for (const Device device : devices_) {
    const MeasuredPeak* from_thread = nullptr;
    std::thread thread([&] { from_thread = &measured_peak(device); });
    const MeasuredPeak& peak = measured_peak(device);
    thread.join();
    EXPECT_EQ(&peak, from_thread);
    EXPECT_EQ(&peak, &measured_peak(device));
    EXPECT_EQ(peak.device_name, device_info(device).name);
    EXPECT_GT(peak.bandwidth_gb_s, device.is_cuda() ? 50 : 0.5);
    EXPECT_LT(peak.bandwidth_gb_s, device.is_cuda() ? 50000 : 5000);
    // The data sheet's number is no peak, but none above it was measured.
    if (device_info(device).peak_bandwidth_gb_s > 0) {
      EXPECT_LT(peak.bandwidth_gb_s, 1.05 * device_info(device).peak_bandwidth_gb_s);
      EXPECT_GT(peak.bandwidth_gb_s, 0.5 * device_info(device).peak_bandwidth_gb_s);
    }
    EXPECT_EQ(peak.cache_bytes, last_level_cache_bytes(device));
    EXPECT_EQ(peak.exceeds_cache, peak.data_bytes >= 4 * peak.cache_bytes);
    ASSERT_EQ(peak.rates.size(), 3u);
    EXPECT_EQ(peak.rates.front().gb_s(), peak.bandwidth_gb_s);
    for (const MeasuredRate& rate : peak.rates) {
      EXPECT_LE(rate.gb_s(), peak.bandwidth_gb_s);
      EXPECT_GT(rate.gb_s(), 0);
      EXPECT_NEAR(rate.bytes, static_cast<double>(peak.data_bytes), 64) << rate.op;
      EXPECT_FALSE(rate.config.empty());
      EXPECT_LE(rate.best_us, rate.median_us);
      EXPECT_GT(rate.samples, 0);
    }
    EXPECT_THAT(to_string(peak), Says(" GB/s by " + peak.rates.front().op, ", best of "));
  }
}

TEST_F(MeasuredPeakTest, MatmulHasOneForEachDtype) {
  for (const Device device : devices_) {
    const MeasuredRate& rate = measured_matmul_peak(device, DType::f32);
    EXPECT_EQ(&rate, &measured_matmul_peak(device, DType::f32));
    EXPECT_EQ(rate.op, "matmul");
    EXPECT_GT(rate.tflop_s(), 1e-4);
    EXPECT_LT(rate.tflop_s(), 1e4);
    EXPECT_GE(rate.flops, 2.0 * 256 * 256 * 256);
    EXPECT_THROW(measured_matmul_peak(device, DType::bool_), UsageError);
  }
}

TEST(MeasuredPeakErrors, ADeviceThatIsNotThereIsRefused) {
  EXPECT_THROW(measured_peak(Device::cuda(4096)), UsageError);
  EXPECT_THROW(measured_matmul_peak(Device::cuda(4096), DType::f32), UsageError);
}

}  // namespace
}  // namespace kiln::test
