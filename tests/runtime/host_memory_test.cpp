#include "runtime/host_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "runtime/graph.hpp"
#include "runtime/memory.hpp"
#include "runtime/transfer/pinned_pool.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TEST(DevicePointer, OfTheSameDeviceIsTheAddressItself) {
  const Tensor tensor = empty({4}, DType::f32, Device::cpu());
  EXPECT_EQ(device_pointer(tensor, Device::cpu()), tensor.data());
  const TensorView on_gpu = dense_view(tensor.data(), DType::f32, {4}, Device::cuda(3));
  EXPECT_EQ(device_pointer(on_gpu, Device::cuda(3)), tensor.data());
}

TEST(DevicePointer, RefusesMemoryOfAnotherGpu) {
  std::vector<float> values(4);
  const TensorView on_gpu = dense_view(values.data(), DType::f32, {4}, Device::cuda(1));
  EXPECT_THROW(device_pointer(on_gpu, Device::cuda(0)), UsageError);
  EXPECT_THROW(device_pointer(on_gpu, Device::cpu()), UsageError);
}

TEST(DevicePointer, OfAnAbsentDeviceIsADeviceError) {
  const Tensor tensor = empty({4}, DType::f32, Device::cpu());
  EXPECT_THROW(device_pointer(tensor, Device::cuda(99)), DeviceError);
  EXPECT_THROW(register_host_memory(tensor.data(), 16, Device::cuda(99)), DeviceError);
}

TEST(RegisterHostMemory, RefusesWhatIsNoMemory) {
  std::vector<std::byte> bytes(16);
  EXPECT_THROW(register_host_memory(nullptr, 16), UsageError);
  EXPECT_THROW(register_host_memory(bytes.data(), 0), UsageError);
  EXPECT_THROW(register_host_memory(bytes.data(), -1), UsageError);
  EXPECT_THROW(register_host_memory(bytes.data(), 16, Device::cpu()), UsageError);
}

class CudaHostMemory : public GpuTest {
 protected:
  /// What the device reads at `address`.
  static std::vector<std::uint8_t> read(void* address, std::int64_t count) {
    const Tensor copied = to_device(dense_view(address, DType::u8, {count}, kDevice), Device::cpu());
    const auto* first = copied.data_as<std::uint8_t>();
    return {first, first + count};
  }
};

/// Mapped memory that goes with the test.
class Mapped {
 public:
  explicit Mapped(std::size_t size_bytes) : size_bytes_(size_bytes) {
    memory_ =
        static_cast<std::byte*>(mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(memory_, 5, size_bytes);
  }
  ~Mapped() { munmap(memory_, size_bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  std::byte* at(std::int64_t offset_bytes) const { return memory_ + offset_bytes; }

 private:
  std::size_t size_bytes_;
  std::byte* memory_;
};

TEST_F(CudaHostMemory, TheDeviceReadsWhatTheAddressSays) {
  PinnedPool pool(kDevice);
  const Tensor host = pool.empty({1000}, DType::u8);
  for (int i = 0; i < 1000; ++i) host.data_as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(read(device_pointer(host, kDevice), 1000)[999], 999 % 256);
  // A view into the middle, backwards: its data is the last element's address.
  const TensorView reversed{host.data_as<std::uint8_t>() + 500, DType::u8, Device::cpu(), {100}, {-3}};
  EXPECT_EQ(read(device_pointer(reversed, kDevice), 1)[0], 500 % 256);
  const TensorView nothing{host.data(), DType::u8, Device::cpu(), {0}, {1}};
  EXPECT_EQ(device_pointer(nothing, kDevice), host.data());
}

TEST_F(CudaHostMemory, PageableMemoryIsRefusedWithAdvice) {
  const Mapped memory(1 << 20);
  EXPECT_THAT(value_error([&] { device_pointer(dense_view(memory.at(0), DType::u8, {1 << 20}), kDevice); }),
              Says("PinnedPool", "register_host_memory", "pin_memory", "cuda:0"));
  std::vector<float> heap(1000);
  EXPECT_THROW(device_pointer(dense_view(heap.data(), DType::f32, {1000}), kDevice), UsageError);
}

TEST_F(CudaHostMemory, MemoryThatIsLockedInPartIsRefused) {
  const Mapped memory(16 * 4096);
  const auto owner = register_host_memory(memory.at(4 * 4096), 8 * 4096, kDevice);
  const auto pointer_of_pages = [&](std::int64_t first, std::int64_t count) {
    return device_pointer(dense_view(memory.at(first * 4096), DType::u8, {count * 4096}), kDevice);
  };
  EXPECT_NE(pointer_of_pages(4, 8), nullptr);
  EXPECT_EQ(read(pointer_of_pages(11, 1), 1)[0], 5);
  EXPECT_THROW(pointer_of_pages(3, 2), UsageError) << "the first page is not locked";
  EXPECT_THROW(pointer_of_pages(11, 2), UsageError) << "the last page is not locked";
  EXPECT_THROW(pointer_of_pages(0, 16), UsageError);
}

TEST_F(CudaHostMemory, RegistrationsSideBySideAreOneRange) {
  const Mapped memory(12 * 4096);
  const auto first = register_host_memory(memory.at(0), 4 * 4096, kDevice);
  auto second = register_host_memory(memory.at(4 * 4096), 4 * 4096, kDevice);
  const auto third = register_host_memory(memory.at(8 * 4096), 4 * 4096, kDevice);
  const TensorView all = dense_view(memory.at(0), DType::u8, {12 * 4096});
  // Copies may not span registrations, so the device looks at each by itself.
  for (int page = 0; page < 12; page += 4)
    EXPECT_EQ(read(static_cast<std::byte*>(device_pointer(all, kDevice)) + page * 4096, 4096),
              std::vector<std::uint8_t>(4096, 5));
  second.reset();
  EXPECT_THROW(device_pointer(all, kDevice), UsageError) << "there is a hole in the middle";
}

TEST_F(CudaHostMemory, MemoryIsPageableAgainWhenTheOwnerGoes) {
  const Mapped memory(4096);
  const TensorView view = dense_view(memory.at(0), DType::u8, {4096});
  auto owner = register_host_memory(memory.at(0), 4096, kDevice);
  EXPECT_EQ(owner.get(), memory.at(0));
  EXPECT_NE(device_pointer(view, kDevice), nullptr);
  owner.reset();
  EXPECT_THROW(device_pointer(view, kDevice), UsageError);
  owner = register_host_memory(memory.at(0), 4096, kDevice);
  EXPECT_NE(device_pointer(view, kDevice), nullptr);
}

TEST_F(CudaHostMemory, MemoryThatIsLockedAlreadyIsAClearError) {
  const Mapped memory(8 * 4096);
  const auto owner = register_host_memory(memory.at(0), 4 * 4096, kDevice);
  EXPECT_THAT(usage_message([&] { register_host_memory(memory.at(0), 4 * 4096, kDevice); }), HasSubstr("already"));
  EXPECT_THROW(register_host_memory(memory.at(2 * 4096), 4 * 4096, kDevice), UsageError) << "in part";
  PinnedPool pool(kDevice);
  const Tensor pooled = pool.empty({4096}, DType::u8);
  EXPECT_THROW(register_host_memory(pooled.data(), 4096, kDevice), UsageError);
}

TEST_F(CudaHostMemory, RangesNeedNotStartOrEndAtPages) {
  const Mapped memory(4 * 4096);
  const auto owner = register_host_memory(memory.at(4096 + 100), 4096, kDevice);
  const TensorView view = dense_view(memory.at(4096 + 100), DType::u8, {4096});
  EXPECT_EQ(read(device_pointer(view, kDevice), 4096), std::vector<std::uint8_t>(4096, 5));
  EXPECT_THROW(device_pointer(dense_view(memory.at(4096 + 99), DType::u8, {1}), kDevice), UsageError);
  const auto neighbour = register_host_memory(memory.at(2 * 4096 + 100), 4096, kDevice);  // shares a page
  EXPECT_NE(device_pointer(dense_view(memory.at(4096 + 100), DType::u8, {2 * 4096}), kDevice), nullptr);
}

TEST_F(CudaHostMemory, MemoryThatMayNotBeWrittenIsLockedForReading) {
  const Mapped memory(4 * 4096);
  ASSERT_EQ(mprotect(memory.at(0), 4 * 4096, PROT_READ), 0);
  const auto owner = register_host_memory(memory.at(0), 4 * 4096, kDevice);
  const TensorView view = dense_view(memory.at(0), DType::u8, {4 * 4096});
  EXPECT_EQ(read(device_pointer(view, kDevice), 1)[0], 5);
}

TEST_F(CudaHostMemory, AReadOnlyFileIsLockedForReading) {
  std::string path = testing::TempDir() + "kiln_read_only_XXXXXX";
  const int file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  const std::string text(8192, 'k');
  ASSERT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  void* const mapped = mmap(nullptr, text.size(), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  unlink(path.c_str());
  ASSERT_NE(mapped, MAP_FAILED);
  {
    const auto owner = register_host_memory(mapped, 8192, kDevice);
    EXPECT_EQ(read(device_pointer(dense_view(mapped, DType::u8, {8192}), kDevice), 8192),
              std::vector<std::uint8_t>(8192, 'k'));
  }
  munmap(mapped, text.size());
}

TEST_F(CudaHostMemory, MemoryThatIsNotMappedIsADeviceError) {
  std::byte* gone = nullptr;
  {
    const Mapped memory(16 * 4096);
    gone = memory.at(0);
  }
  EXPECT_THROW(register_host_memory(gone, 16 * 4096, kDevice), DeviceError);
}

TEST_F(CudaHostMemory, AddressesAreToBeHadDuringACapture) {
  const OwnedStream stream(kDevice);
  PinnedPool pool(kDevice);
  const Tensor host = pool.empty({64}, DType::u8);
  const Tensor target = empty({64}, DType::u8, stream);
  std::memset(host.data(), 9, 64);
  const Graph graph = capture(stream, [&] {
    EXPECT_EQ(device_pointer(host, kDevice), device_pointer(host, kDevice));
    const Tensor more = pool.empty({4096}, DType::u8);  // so is memory
    copy(target, dense_view(device_pointer(host, kDevice), DType::u8, {64}, kDevice), stream);
  });
  graph.launch(stream);
  synchronize(stream);
  EXPECT_EQ(*to_device(target, Device::cpu()).data_as<std::uint8_t>(), 9);
}

}  // namespace
}  // namespace kiln::test
