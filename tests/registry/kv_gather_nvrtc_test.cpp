// Compiles what gathers and scatters of rows launch by default, with no GPU, and refuses spills where rows are long:
// what a thread keeps there, each row's packets on their way, is all of its registers.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "tests/support/kernel_code.hpp"

namespace kiln::test {
namespace {

struct NamedCall {
  const char* name;
  const char* op;
  std::int64_t host_rows, row_bytes;
  DType index;
};

void PrintTo(const NamedCall& call, std::ostream* out) {
  *out << call.op << " " << call.name;
}

class KvGatherOnNvrtc : public ::testing::TestWithParam<NamedCall> {};

TEST_P(KvGatherOnNvrtc, CompilesWithoutSpilling) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  constexpr std::int64_t kPairs = 65'536;
  const NamedCall& call = GetParam();
  const bool is_gather = std::string(call.op) == "sparse_kv_gather";
  const auto rows = [&](std::int64_t count, Device device) {
    return dense_view(nullptr, DType::u8, {count, call.row_bytes}, device);
  };
  const Device gpu = Device::cuda(0);
  const TensorView host = rows(call.host_rows, Device::cpu()), on_gpu = rows(kPairs, gpu);
  const std::vector<TensorView> inputs = {is_gather ? on_gpu : host, is_gather ? host : on_gpu,
                                          dense_view(nullptr, call.index, {128, kPairs / 128, 2}, gpu)};
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"})
    for (const CompileRequest& request :
         compile_requests(call.op, inputs, {{"check_bounds", true}}, parse_cuda_target(arch)))
      expect_no_spills(request);
}

INSTANTIATE_TEST_SUITE_P(Calls, KvGatherOnNvrtc,
                         ::testing::Values(NamedCall{"as_given", "sparse_kv_gather", 1'000'000, 656, DType::i64},
                                           NamedCall{"sorted", "sparse_kv_gather", 39'000'000, 656, DType::i32},
                                           NamedCall{"sorted", "kv_scatter", 39'000'000, 1152, DType::i64},
                                           NamedCall{"rows_of_words", "sparse_kv_gather", 9'000, 20, DType::i32}),
                         [](const auto& test) { return std::string(test.param.op) + "_" + test.param.name; });

}  // namespace
}  // namespace kiln::test
