#include "runtime/tensor_map.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "runtime/kernel.hpp"
#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"

namespace kiln::test {
namespace {

/// Boxes of 64 x 128 of a bf16 matrix of 1000 rows of 4096.
TensorMap matrix(int tensor_index) {
  TensorMap map;
  map.tensor_index = tensor_index;
  map.dtype = DType::bf16;
  map.rank = 2;
  map.extents = {4096, 1000};
  map.strides_bytes = {8192};
  map.box = {64, 128};
  map.swizzle = TensorMapSwizzle::b128;
  map.l2_promotion = TensorMapPromotion::b256;
  return map;
}

TEST(TensorMapSet, IsEmptyWithoutMaps) {
  EXPECT_TRUE(TensorMapSet().empty());
  EXPECT_TRUE(TensorMapSet({}, nullptr, Device::cpu()).empty());
}

TEST(TensorMapSet, HasARoomyEnoughAlignment) {
  EXPECT_EQ(sizeof(EncodedTensorMap), 128u);
  EXPECT_EQ(alignof(EncodedTensorMap) % 64, 0u);
  EXPECT_EQ(alignof(TensorMapSet::Storage) % 64, 0u);
}

TEST(TensorMapSet, IsRefusedOnTheCpu) {
  ArgumentTemplate arguments;
  arguments.add_tensor_map(matrix(0));
  void* data[kMaxArguments] = {};
  EXPECT_THROW(TensorMapSet(arguments.tensor_maps(), data, Device::cpu()), InternalError);
}

// Copies the map it is given to memory, where the host can look at it.
constexpr const char* kMapCopy = R"(
namespace test {
struct alignas(64) Map {
  unsigned words[32];
};
template <int PARAMETER>
__global__ void map_copy(int before, const __grid_constant__ Map first, const __grid_constant__ Map second, unsigned* out) {
  out[threadIdx.x] = (PARAMETER == 0 ? first : second).words[threadIdx.x] + static_cast<unsigned>(before);
}
}  // namespace test
)";

class CudaTensorMap : public GpuKernelTest {
 protected:
  void SetUp() override {
    GpuKernelTest::SetUp();
    if (IsSkipped()) return;
    if (device_info(device_).target.arch < "sm_90") GTEST_SKIP() << device_info(device_).target.arch << " has no TMA";
    for (const std::int64_t parameter : {0, 1}) {
      CompileRequest request;
      request.op = "map_copy";
      request.source = {"test/map_copy.hpp", kMapCopy, {}};
      request.kernel = "test::map_copy";
      request.template_arguments = {parameter};
      request.num_parameters = 4;
      request.target = device_info(device_).target;
      kernels_[static_cast<std::size_t>(parameter)] =
          load_kernel(compiler_for(DeviceType::cuda).compile(request), device_);
    }
  }

  /// What the driver makes of matrix() at `address`, asked without Kiln.
  static EncodedTensorMap expected(void* address) {
    using Encode = int (*)(void*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*, const unsigned*,
                           const unsigned*, int, int, int, int);
    const auto encode = reinterpret_cast<Encode>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled"));
    const std::uint64_t extents[] = {4096, 1000}, strides_bytes[] = {8192};
    const unsigned box[] = {64, 128}, element_strides[] = {1, 1};
    constexpr int kBf16 = 9, kSwizzle128 = 3, kPromotion256 = 3;
    EncodedTensorMap encoded;
    EXPECT_EQ(encode(&encoded, kBf16, 2, address, extents, strides_bytes, box, element_strides, 0, kSwizzle128,
                     kPromotion256, 0),
              0);
    return encoded;
  }

  /// The map that a kernel sees as its parameter `which` of the two maps in `arguments`.
  EncodedTensorMap seen(int which, const ArgumentTemplate& arguments, const TensorMapSet& maps, void** data,
                        Stream stream) const {
    void* parameters[kMaxArguments];
    TensorMapSet::Storage storage;
    arguments.bind(data, parameters);
    maps.bind(data, storage, parameters);
    for (const int i : {1, 2}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parameters[i]) % 64, 0u);
    kernels_[static_cast<std::size_t>(which)]->launch({.num_warps = 1}, parameters, stream);
    storage[0].bytes.fill(std::byte{0xA5});  // the launch has read it
    synchronize(stream);
    EncodedTensorMap encoded;
    std::memcpy(&encoded, to_device(out_, Device::cpu()).data(), sizeof encoded);
    return encoded;
  }

  const Device device_ = Device::cuda(0);
  std::array<std::shared_ptr<const Kernel>, 2> kernels_;
  Tensor out_ = device_count(DeviceType::cuda) > 0 ? empty({32}, DType::u32, device_) : Tensor();
};

TEST_F(CudaTensorMap, ReachesTheKernelAsTheDriverEncodesIt) {
  const Tensor first = empty({1000, 4096}, DType::bf16, device_), second = empty({1100, 4096}, DType::bf16, device_);
  ArgumentTemplate arguments;
  arguments.add_value(std::int32_t{0});
  arguments.add_tensor_map(matrix(0));
  TensorMap shifted = matrix(1);
  shifted.offset_bytes = 48;
  arguments.add_tensor_map(shifted);
  arguments.add_tensor(2);

  void* data[kMaxArguments] = {first.data(), second.data(), out_.data()};
  void* swapped[kMaxArguments] = {second.data(), first.data(), out_.data()};
  void* unknown[kMaxArguments] = {};
  const auto after = [](const Tensor& tensor) { return tensor.data_as<std::byte>() + 48; };
  const Stream stream = Stream::default_of(device_);
  // Encoded for the addresses of the launch, for others, and before there were any.
  for (void* const* const encoded_for : {data, swapped, unknown}) {
    const TensorMapSet maps(arguments.tensor_maps(), encoded_for, device_);
    EXPECT_FALSE(maps.empty());
    for (int repeat = 0; repeat < 2; ++repeat) {
      EXPECT_EQ(seen(0, arguments, maps, data, stream).bytes, expected(first.data()).bytes);
      EXPECT_EQ(seen(1, arguments, maps, data, stream).bytes, expected(after(second)).bytes);
      EXPECT_EQ(seen(0, arguments, maps, swapped, stream).bytes, expected(second.data()).bytes);
      EXPECT_EQ(seen(1, arguments, maps, swapped, stream).bytes, expected(after(first)).bytes);
    }
  }
}

TEST_F(CudaTensorMap, IsBoundInThreadsThatNeverUsedTheDevice) {
  const Tensor tensor = empty({1000, 4096}, DType::bf16, device_);
  ArgumentTemplate arguments;
  arguments.add_value(std::int32_t{0});
  arguments.add_tensor_map(matrix(0));
  arguments.add_tensor_map(matrix(0));
  arguments.add_tensor(1);
  void* unknown[kMaxArguments] = {};
  TensorMapSet maps;
  std::thread([&] { maps = TensorMapSet(arguments.tensor_maps(), unknown, device_); }).join();
  const EncodedTensorMap wanted = expected(tensor.data());
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      void* data[kMaxArguments] = {tensor.data()};
      void* parameters[kMaxArguments];
      TensorMapSet::Storage storage;
      for (int i = 0; i < 100; ++i) {
        maps.bind(data, storage, parameters);
        for (const int parameter : {1, 2})
          right += std::memcmp(parameters[parameter], &wanted, sizeof wanted) == 0 ? 1 : 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4 * 100 * 2);
}

TEST_F(CudaTensorMap, RefusesMemoryThatIsNotAligned) {
  ArgumentTemplate arguments;
  arguments.add_tensor_map(matrix(0));
  void* data[kMaxArguments] = {reinterpret_cast<void*>(std::uintptr_t{0x10008})};
  EXPECT_THROW(TensorMapSet(arguments.tensor_maps(), data, device_), InternalError);
}

TEST_F(CudaTensorMap, TheDriverTakesWhatHasNoProblem) {
  void* unknown[kMaxArguments] = {};
  std::vector<TensorMap> maps;
  for (const DType dtype : kAllDTypes) {
    TensorMap map = matrix(0);
    map.dtype = dtype;
    map.box[0] = static_cast<std::int32_t>(128 / itemsize_bytes(dtype));
    maps.push_back(map);
  }
  TensorMap rounded = matrix(0);
  rounded.dtype = DType::f32;
  rounded.box[0] = 32;
  rounded.rounds_to_tf32 = true;
  maps.push_back(rounded);
  TensorMap largest;
  largest.rank = 5;
  largest.extents = {(std::int64_t{1} << 32) - 1, 2, 2, 2, 2};
  largest.strides_bytes.fill((std::int64_t{1} << 40) - 16);
  largest.box = {256, 256, 1, 1, 1};
  maps.push_back(largest);
  TensorMap line;
  line.rank = 1;
  line.extents = {1};
  line.box = {16};
  maps.push_back(line);
  TensorMap broadcast = matrix(0);
  broadcast.strides_bytes = {0};
  maps.push_back(broadcast);
  for (const TensorMap& map : maps) {
    ArgumentTemplate arguments;
    arguments.add_tensor_map(map);
    EXPECT_NO_THROW(TensorMapSet(arguments.tensor_maps(), unknown, device_)) << name(map.dtype) << " " << map.rank;
  }
}

}  // namespace
}  // namespace kiln::test
