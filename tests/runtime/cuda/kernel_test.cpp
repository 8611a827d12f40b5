#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/kernel.hpp"
#include "runtime/device_info.hpp"
#include "runtime/graph.hpp"
#include "runtime/kernel.hpp"
#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

constexpr const char* kVectorAdd = R"(
namespace test {
template <typename T, int BLOCK_SIZE>
__global__ void vector_add(const T* x, const T* y, T* out, long long n) {
  const long long i = blockIdx.x * static_cast<long long>(BLOCK_SIZE) + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
}  // namespace test
)";
// Every program writes its place in the grid, through dynamic shared memory.
constexpr const char* kGridProbe = R"(
namespace test {
template <typename T, int BLOCK_SIZE>
__global__ void grid_probe(T* out, int shared_elements) {
  extern __shared__ int shared[];
  if (threadIdx.x == 0) shared[shared_elements - 1] = blockIdx.x + 100 * blockIdx.y + 10000 * blockIdx.z;
  __syncthreads();
  if (threadIdx.x == blockDim.x - 1) out[blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)] = shared[shared_elements - 1] + blockDim.x * 1000000;
}
}  // namespace test
)";
// Its two programs of a cluster each write the other's rank.
constexpr const char* kClusterProbe = R"(
namespace test {
template <typename T, int BLOCK_SIZE>
__global__ void __cluster_dims__(2, 1, 1) cluster_probe(T* out) {
  unsigned rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == blockDim.x - 1) out[blockIdx.x ^ 1u] = static_cast<T>(1000 * blockDim.x + rank);
}
}  // namespace test
)";
// Writes 1, lets the next kernel start, and only then, after a while, 2.
constexpr const char* kSlowWriter = R"(
namespace test {
template <typename T, int BLOCK_SIZE>
__global__ void slow_writer(volatile T* out) {
  if (threadIdx.x != 0) return;
  *out = 1;
  __threadfence();
  asm volatile("griddepcontrol.launch_dependents;");
  for (int i = 0; i < 200; ++i) __nanosleep(10000);
  *out = 2;
}
}  // namespace test
)";
// What the writer had written when this kernel started, and when that one was done.
constexpr const char* kReader = R"(
namespace test {
template <typename T, int BLOCK_SIZE>
__global__ void reader(const volatile T* in, T* out) {
  if (threadIdx.x != 0) return;
  out[0] = *in;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[1] = *in;
}
}  // namespace test
)";
constexpr const char* kFault = R"(
namespace test {
template <typename T, int BLOCK_SIZE>
__global__ void fault(T* nowhere) { nowhere[threadIdx.x] = 1; }
}  // namespace test
)";

Artifact compile(const char* name, const char* text, const Target& target) {
  CompileRequest request;
  request.op = name;
  request.source = {std::string("test/") + name + ".hpp", text, {}};
  request.kernel = std::string("test::") + name;
  request.template_arguments = {TypeName{"int"}, std::int64_t{128}};
  request.target = target;
  return compiler_for(DeviceType::cuda).compile(request);
}

TEST(RunsOn, FollowsCudasCompatibilityRules) {
  using cuda::runs_on;
  EXPECT_TRUE(runs_on(ArtifactKind::cubin, "sm_90a", "sm_90a"));
  EXPECT_TRUE(runs_on(ArtifactKind::cubin, "sm_80", "sm_86"));
  EXPECT_TRUE(runs_on(ArtifactKind::cubin, "sm_90", "sm_90a"));
  EXPECT_TRUE(runs_on(ArtifactKind::cubin, "sm_100f", "sm_103a"));
  EXPECT_FALSE(runs_on(ArtifactKind::cubin, "sm_86", "sm_80"));
  EXPECT_FALSE(runs_on(ArtifactKind::cubin, "sm_80", "sm_90a"));
  EXPECT_FALSE(runs_on(ArtifactKind::cubin, "sm_100a", "sm_103a"));
  EXPECT_FALSE(runs_on(ArtifactKind::cubin, "sm_100a", "sm_90a"));
  EXPECT_TRUE(runs_on(ArtifactKind::ptx, "sm_80", "sm_90a"));
  EXPECT_FALSE(runs_on(ArtifactKind::ptx, "sm_90a", "sm_100a"));
  EXPECT_FALSE(runs_on(ArtifactKind::ptx, "sm_90", "sm_80"));
  EXPECT_FALSE(runs_on(ArtifactKind::cubin, "znver5", "sm_80"));
  EXPECT_FALSE(runs_on(ArtifactKind::cubin, "", "sm_80"));
}

class CudaKernel : public GpuKernelTest {
 protected:
  const Device device_ = kDevice;
  const Target& target() const { return device_info(device_).target; }
  bool is_at_least_sm90() const { return cuda::runs_on(ArtifactKind::ptx, "sm_90", target().arch); }
};

constexpr std::int64_t kElements = 100'003;

/// x + y of two counting vectors on the device, launched on `stream` and awaited.
struct VectorAdd {
  explicit VectorAdd(Device device) : out(empty({kElements}, DType::i32, device)) {
    std::vector<std::int32_t> values(kElements);
    std::iota(values.begin(), values.end(), 0);
    x = to_device(dense_view(values.data(), DType::i32, {kElements}), device);
    y = to_device(x, device);
    clear();
  }
  void clear() const {
    memset_bytes(out, 0xA5, Stream::default_of(out.device()));
    synchronize(Stream::default_of(out.device()));
  }
  void launch(const Kernel& kernel, Stream stream) const {
    void* pointers[] = {x.data(), y.data(), out.data()};
    std::int64_t elements = kElements;
    void* parameters[] = {&pointers[0], &pointers[1], &pointers[2], &elements};
    kernel.launch({.grid = {(kElements + 127) / 128, 1, 1}, .num_warps = 4}, parameters, stream);
  }
  testing::AssertionResult is_right() const {
    const Tensor host = to_device(out, Device::cpu());
    for (std::int64_t i = 0; i < kElements; ++i)
      if (host.data_as<std::int32_t>()[i] != 2 * i)
        return testing::AssertionFailure() << "element " << i << " is " << host.data_as<std::int32_t>()[i];
    return testing::AssertionSuccess();
  }
  Tensor x, y, out;
};

TEST_F(CudaKernel, AddsVectorsOnEveryDeviceAndStream) {
  for (int ordinal = 0; ordinal < device_count(DeviceType::cuda); ++ordinal) {
    const Device device = Device::cuda(ordinal);
    const auto kernel = load_kernel(compile("vector_add", kVectorAdd, device_info(device).target), device);
    EXPECT_GT(kernel->resources().registers, 0);
    EXPECT_EQ(kernel->resources().local_bytes, 0);
    EXPECT_GE(kernel->resources().max_threads_per_block, 128);
    const VectorAdd add(device);
    const OwnedStream own(device);
    for (Stream stream : {Stream::default_of(device), own.get()}) {
      add.clear();
      add.launch(*kernel, stream);
      synchronize(stream);
      EXPECT_TRUE(add.is_right()) << to_string(device);
    }
  }
}

TEST_F(CudaKernel, LoadsPtx) {
  Target ptx = target();
  ptx.features = "ptx";
  const auto kernel = load_kernel(compile("vector_add", kVectorAdd, ptx), device_);
  const VectorAdd add(device_);
  add.launch(*kernel, Stream::default_of(device_));
  synchronize(Stream::default_of(device_));
  EXPECT_TRUE(add.is_right());
}

TEST_F(CudaKernel, LaunchesFromManyThreads) {
  const auto kernel = load_kernel(compile("vector_add", kVectorAdd, target()), device_);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      const OwnedStream stream(device_);
      const VectorAdd add(device_);
      for (int i = 0; i < 20; ++i) add.launch(*kernel, stream);
      synchronize(stream);
      EXPECT_TRUE(add.is_right());
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CudaKernel, MapsTheWholeGridAndOptInSharedMemory) {
  const auto kernel = load_kernel(compile("grid_probe", kGridProbe, target()), device_);
  const Tensor out = empty({3 * 2 * 4}, DType::i32, device_);
  std::int32_t one = 1;
  void* nowhere = out.data();
  void* without[] = {&nowhere, &one};
  EXPECT_THROW(kernel->launch({.grid = {3, 2, 4}}, without, Stream::default_of(device_)), UsageError)
      << "a kernel that uses dynamic shared memory gets none";
  // Above 48 KiB a kernel has to be allowed it.
  for (std::int32_t shared_bytes : {4, 48 * 1024, device_info(device_).shared_bytes_per_block}) {
    void* pointer = out.data();
    std::int32_t elements = shared_bytes / 4;
    void* parameters[] = {&pointer, &elements};
    kernel->launch({.grid = {3, 2, 4}, .num_warps = 2, .shared_bytes = shared_bytes}, parameters,
                   Stream::default_of(device_));
    const Tensor host = to_device(out, Device::cpu());
    for (int z = 0; z < 4; ++z)
      for (int y = 0; y < 2; ++y)
        for (int x = 0; x < 3; ++x)
          EXPECT_EQ(host.data_as<std::int32_t>()[x + 3 * (y + 2 * z)], x + 100 * y + 10000 * z + 64 * 1000000)
              << shared_bytes << " bytes of shared memory";
  }
}

TEST_F(CudaKernel, RefusesLessSharedMemoryThanItsArtifactSays) {
  Artifact artifact = compile("grid_probe", kGridProbe, target());
  artifact.dynamic_shared_bytes = 64;
  const auto kernel = load_kernel(artifact, device_);
  const Tensor out = empty({1}, DType::i32, device_);
  void* pointer = out.data();
  std::int32_t elements = 1;
  void* parameters[] = {&pointer, &elements};
  const Stream stream = Stream::default_of(device_);
  EXPECT_THAT(usage_message([&] { kernel->launch({.num_warps = 1, .shared_bytes = 60}, parameters, stream); }),
              Says("60 bytes", "64 or more"));
  kernel->launch({.num_warps = 1, .shared_bytes = 64}, parameters, stream);
  synchronize(stream);
}

TEST_F(CudaKernel, RefusesGeometryThatTheDeviceDoesNotTake) {
  const auto kernel = load_kernel(compile("vector_add", kVectorAdd, target()), device_);
  const VectorAdd add(device_);
  void* pointers[] = {add.x.data(), add.y.data(), add.out.data()};
  std::int64_t none = 0;
  void* parameters[] = {&pointers[0], &pointers[1], &pointers[2], &none};
  const Stream stream = Stream::default_of(device_);
  const std::int64_t too_wide = std::int64_t{1} << 31;
  for (const LaunchGeometry& bad :
       {LaunchGeometry{.grid = {too_wide, 1, 1}}, LaunchGeometry{.grid = {1, 65536, 1}},
        LaunchGeometry{.grid = {1, 1, 65536}}, LaunchGeometry{.grid = {-1, 1, 1}}, LaunchGeometry{.num_warps = 0},
        LaunchGeometry{.num_warps = 64}, LaunchGeometry{.num_warps = 1 << 30},
        LaunchGeometry{.shared_bytes = device_info(device_).shared_bytes_per_block + 1},
        LaunchGeometry{.shared_bytes = -1}})
    EXPECT_THROW(kernel->launch(bad, parameters, stream), UsageError);
  EXPECT_THROW(kernel->launch({}, parameters, Stream::default_of(Device::cpu())), UsageError);
  EXPECT_THAT(usage_message([&] { kernel->launch({.grid = {1, 70000, 1}}, parameters, stream); }),
              Says("70000", "65535"));
  kernel->launch({.grid = {0, 1, 1}}, parameters, stream);
  synchronize(stream);
}

TEST_F(CudaKernel, RunsInAnyNumberOfWarps) {
  const auto kernel = load_kernel(compile("grid_probe", kGridProbe, target()), device_);
  const Tensor out = empty({1}, DType::i32, device_);
  void* pointer = out.data();
  std::int32_t elements = 1;
  void* parameters[] = {&pointer, &elements};
  for (const std::int32_t num_warps : {1, 3, 12, 32}) {
    kernel->launch({.num_warps = num_warps, .shared_bytes = 4}, parameters, Stream::default_of(device_));
    synchronize(Stream::default_of(device_));
    EXPECT_EQ(to_device(out, Device::cpu()).data_as<std::int32_t>()[0], num_warps * 32 * 1000000);
  }
}

TEST_F(CudaKernel, RunsInClustersOverGridsThatAreMultiplesOfThem) {
  if (!is_at_least_sm90()) GTEST_SKIP() << target().arch << " has no clusters";
  const auto kernel = load_kernel(compile("cluster_probe", kClusterProbe, target()), device_);
  EXPECT_EQ(kernel->resources().cluster, (std::array<std::int32_t, 3>{2, 1, 1}));
  const Tensor out = empty({6}, DType::i32, device_);
  void* pointer = out.data();
  void* parameters[] = {&pointer};
  kernel->launch({.grid = {6, 1, 1}, .num_warps = 12}, parameters, Stream::default_of(device_));
  synchronize(Stream::default_of(device_));
  const Tensor host = to_device(out, Device::cpu());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(host.data_as<std::int32_t>()[i], 384000 + (i + 1) % 2);
  EXPECT_THAT(usage_message([&] { kernel->launch({.grid = {7, 1, 1}}, parameters, Stream::default_of(device_)); }),
              Says("grid of 7 x 1 x 1 programs", "clusters of 2 x 1 x 1"));
  EXPECT_EQ(load_kernel(compile("vector_add", kVectorAdd, target()), device_)->resources().cluster,
            (std::array<std::int32_t, 3>{1, 1, 1}));
}

TEST_F(CudaKernel, MayStartWhileTheOneBeforeItRuns) {
  if (!is_at_least_sm90()) GTEST_SKIP() << target().arch << " has no programmatic dependent launch";
  const auto writer = load_kernel(compile("slow_writer", kSlowWriter, target()), device_);
  const auto reader = load_kernel(compile("reader", kReader, target()), device_);
  const Tensor state = empty({1}, DType::i32, device_), seen = empty({2}, DType::i32, device_);
  void* pointers[] = {state.data(), seen.data()};
  void* parameters[] = {&pointers[0], &pointers[1]};
  const OwnedStream stream(device_);
  for (const bool overlaps : {false, true}) {
    memset_bytes(state, 0, stream);
    writer->launch({}, parameters, stream);
    reader->launch({.overlaps_previous = overlaps}, parameters, stream);
    synchronize(stream);
    const Tensor host = to_device(seen, Device::cpu());
    EXPECT_EQ(host.data_as<std::int32_t>()[0], overlaps ? 1 : 2);
    EXPECT_EQ(host.data_as<std::int32_t>()[1], 2);
  }
}

TEST_F(CudaKernel, RefusesCodeForAnotherArchitecture) {
  const char* other = target().arch == "sm_80" ? "sm_90a" : "sm_80";
  EXPECT_THROW(load_kernel(compile("vector_add", kVectorAdd, {DeviceType::cuda, other, {}}), device_), UsageError);
}

TEST_F(CudaKernel, RefusesDamagedCodeAndAbsentSymbols) {
  Artifact artifact = compile("vector_add", kVectorAdd, target());
  Artifact renamed = artifact;
  renamed.entry = "no_such_symbol";
  EXPECT_THROW(load_kernel(renamed, device_), DeviceError);
  artifact.code.assign(artifact.code.size(), std::byte{0});
  EXPECT_THROW(load_kernel(artifact, device_), DeviceError);
}

TEST_F(CudaKernel, IsCapturedIntoAGraph) {
  const auto kernel = load_kernel(compile("vector_add", kVectorAdd, target()), device_);
  const VectorAdd add(device_);
  const OwnedStream stream(device_);
  const Graph graph = capture(stream, [&] { add.launch(*kernel, stream); });
  synchronize(stream);
  EXPECT_FALSE(add.is_right()) << "the launch ran while it was being recorded";
  for (int replay = 0; replay < 3; ++replay) {
    add.clear();
    graph.launch(stream);
    synchronize(stream);
    EXPECT_TRUE(add.is_right()) << "replay " << replay;
  }
}

TEST_F(CudaKernel, OutlivesItsLastOwnerInAGraph) {
  auto kernel = load_kernel(compile("vector_add", kVectorAdd, target()), device_);
  const VectorAdd add(device_);
  const OwnedStream stream(device_);
  const Graph graph = capture(stream, [&] { add.launch(*kernel, stream); });
  kernel.reset();
  graph.launch(stream);
  synchronize(stream);
  EXPECT_TRUE(add.is_right());
}

TEST_F(CudaKernel, IsUnloadedWhereItsOwnerAsksForThat) {
  const Artifact artifact = compile("vector_add", kVectorAdd, target());
  const VectorAdd add(device_);
  const OwnedStream stream(device_), captured(device_);
  const auto other = load_kernel(artifact, device_);
  for (int round = 0; round < 3; ++round) {
    const auto kernel = load_kernel(artifact, device_);
    add.launch(*kernel, stream);
    synchronize(stream);
    const Graph graph = capture(captured, [&] { kernel->unload(); });  // of this one, no launch is captured
  }
  add.clear();
  add.launch(*other, stream);
  synchronize(stream);
  EXPECT_TRUE(add.is_right()) << "another load of the same code is not touched";
}

TEST_F(CudaKernel, IsLoadedWhileAnotherStreamIsCaptured) {
  const Artifact artifact = compile("vector_add", kVectorAdd, target());
  const VectorAdd add(device_);
  const OwnedStream captured(device_), other(device_);
  const Graph graph = capture(captured, [&] {
    const auto kernel = load_kernel(artifact, device_);
    add.launch(*kernel, other);
  });
  synchronize(other);
  EXPECT_TRUE(add.is_right());
}

TEST_F(CudaKernel, RunsOnAForeignStream) {
  const auto kernel = load_kernel(compile("vector_add", kVectorAdd, target()), device_);
  const VectorAdd add(device_);
  // As another library would make one, with the context that it finds current.
  const CurrentDevice current(Device::cuda(0));
  void* const foreign = cuda::create_stream(0);
  add.launch(*kernel, {device_, foreign});
  cuda::synchronize_stream(foreign);
  EXPECT_TRUE(add.is_right());
  cuda::destroy_stream(foreign);
}

TEST_F(CudaKernel, LeavesTheCallersContextCurrent) {
  if (device_count(DeviceType::cuda) < 2) GTEST_SKIP() << "needs two CUDA devices";
  const auto kernel =
      load_kernel(compile("vector_add", kVectorAdd, device_info(Device::cuda(1)).target), Device::cuda(1));
  const VectorAdd add(Device::cuda(1));
  const CurrentDevice current(Device::cuda(0));
  add.launch(*kernel, Stream::default_of(Device::cuda(1)));
  synchronize(Stream::default_of(Device::cuda(1)));
  EXPECT_EQ(cuda::current_context(), cuda::primary_context(0));
  EXPECT_TRUE(add.is_right());
}

TEST_F(CudaKernel, FaultsSurfaceAsDeviceErrors) {
  // A fault ends the process's use of the device, so it happens in a process of its own.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const auto kernel = load_kernel(compile("fault", kFault, target()), device_);
        std::uintptr_t nowhere = 0x10;
        void* parameters[] = {&nowhere};
        bool is_clear = false;
        try {
          kernel->launch({}, parameters, Stream::default_of(device_));
          synchronize(Stream::default_of(device_));
        } catch (const DeviceError& error) {
          is_clear = error.code() != 0 && std::string(error.what()).find("CUDA_ERROR") != std::string::npos;
        }
        std::_Exit(is_clear ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kiln::test
