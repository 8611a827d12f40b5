// Kernels for CUDA alone: written without tiles, in any number of warps, in files with CUDA's own suffix.

#include <string>

#include "compiler/compilers.hpp"
#include "tests/support/compiler_test.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

constexpr const char* kText = R"(#include <kiln/tl.hpp>
namespace test {
struct alignas(64) Map {
  unsigned char opaque[128];
};
template <int TILE>
KILN_KERNEL __cluster_dims__(2, 1, 1) void threads_kernel(const __grid_constant__ Map map, int* out) {
  out[threadIdx.x] = map.opaque[threadIdx.x % 128] + kiln::tl::kNumThreads;
}
template <int TILE>
KILN_KERNEL void tile_kernel(int* out) {
  kiln::tl::store(out + kiln::tl::arange<TILE>(), kiln::tl::zeros<int, TILE>());
}
}  // namespace test
)";

CompileRequest request_of(const std::string& kernel, std::int32_t num_parameters, std::int32_t num_warps) {
  CompileRequest request;
  request.op = "tile_free";
  request.source = {"test/kernel_sm90.cuh", kText, {}};
  request.kernel = "test::" + kernel;
  request.template_arguments = {std::int64_t{256}};
  request.num_parameters = num_parameters;
  request.num_warps = num_warps;
  request.target = {DeviceType::cuda, "sm_90a", {}};
  return request;
}

using TileFreeKernel = CompilerTest<DeviceType::cuda>;

TEST_F(TileFreeKernel, CompilesForAnyNumberOfWarps) {
  for (const std::int32_t num_warps : {1, 3, 12, 32}) {
    const CompileRequest request = request_of("threads_kernel", 2, num_warps);
    EXPECT_FALSE(compiler_for(DeviceType::cuda).compile(request).code.empty());
    const std::string ptx = compiler_for(DeviceType::cuda).emit(request, EmitKind::ptx);
    EXPECT_THAT(ptx, HasSubstr(".maxntid " + std::to_string(32 * num_warps)));
    EXPECT_THAT(ptx, Says(".reqnctapercluster 2", ".param .align 64 .b8"));
  }
}

TEST_F(TileFreeKernel, TilesStillNeedAPowerOfTwo) {
  EXPECT_FALSE(compiler_for(DeviceType::cuda).compile(request_of("tile_kernel", 1, 4)).code.empty());
  EXPECT_THAT(compile_log([] { compiler_for(DeviceType::cuda).compile(request_of("tile_kernel", 1, 12)); }),
              HasSubstr("num_warps and the vector width are powers of two"));
}

}  // namespace
}  // namespace kiln::test
