// Counts operator new in the whole test binary: the hot paths must not call it.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "compiler/compilers.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "runtime/tensor_map.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"

namespace {

thread_local std::int64_t allocations_of_this_thread = 0;

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations_of_this_thread;
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(size == 0 ? 1 : size)
                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return counted(size, 1);
}
void* operator new[](std::size_t size) {
  return counted(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
// A sanitizer brings its own of these two, which the deletes below would not match.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations_of_this_thread;
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new[](std::size_t size, const std::nothrow_t& nothrow) noexcept {
  return operator new(size, nothrow);
}
// GCC, where it inlines only one of a pair, takes the two for strangers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
#pragma GCC diagnostic pop

namespace kiln::test {
namespace {

/// One program's worth: the CPU hands larger grids to its workers when a program happens to take long, and to start
/// those allocates.
constexpr std::size_t kElements = 60;

template <typename Call>
std::int64_t allocations_of(const Call& call) {
  const std::int64_t before = allocations_of_this_thread;
  call();
  return allocations_of_this_thread - before;
}

TEST(AllocationTest, TheCounterCounts) {
  EXPECT_GT(allocations_of([] { delete new int(1); }) + allocations_of([] { std::vector<int>(100).back() = 1; }), 0);
}

TEST(AllocationTest, WarmCallsAllocateNothing) {
  const std::vector<Device> devices = available_devices();
  if (devices.empty()) GTEST_SKIP() << compiler_problem(DeviceType::cpu);
  for (const Device device : devices) {
    const Tensor x = make_f32(std::vector<float>(kElements, 1.0f), device),
                 y = make_f32(std::vector<float>(kElements, 2.0f), device);
    const Tensor outputs[] = {make_f32(std::vector<float>(kElements, 0.0f), device)};
    const Tensor inputs[] = {x, y};
    const TensorView input_views[] = {x, y}, output_views[] = {outputs[0]};
    const Attributes attributes{{"alpha", 2.0}};
    const Stream stream = Stream::default_of(device);
    const ResolvedOp add = resolve("add", input_views, attributes);
    add(input_views, output_views, stream);
    dispatch_gpu_op("add", inputs, attributes, {.outputs = outputs, .stream = stream});
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < 1000; ++i) add(input_views, output_views, stream);
              }),
              0)
        << "resolved, on " << to_string(device);
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < 1000; ++i)
                  dispatch_gpu_op("add", inputs, attributes, {.outputs = outputs, .stream = stream});
              }),
              0)
        << "by name, on " << to_string(device);
    synchronize(stream);
    EXPECT_EQ(read_f32(outputs[0]), std::vector<float>(kElements, 5.0f));
  }
}

TEST(AllocationTest, TensorMapsAreMovedWithoutAllocation) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  const Device device = Device::cuda(0);
  if (device_info(device).target.arch < "sm_90") GTEST_SKIP() << device_info(device).target.arch << " has no TMA";
  TensorMap line;
  line.dtype = DType::f32;
  line.rank = 1;
  line.extents = {32};
  line.box = {32};
  ArgumentTemplate arguments;
  arguments.add_tensor_map(line);
  const Tensor x = empty({64}, DType::f32, device);
  void* data[kMaxArguments] = {x.data()};
  void* elsewhere[kMaxArguments] = {x.data_as<float>() + 32};
  void* parameters[kMaxArguments];
  TensorMapSet::Storage storage;
  const TensorMapSet maps(arguments.tensor_maps(), data, device);
  EXPECT_EQ(allocations_of([&] {
              for (int i = 0; i < 1000; ++i) maps.bind(i % 2 == 0 ? data : elsewhere, storage, parameters);
            }),
            0);
}

}  // namespace
}  // namespace kiln::test
