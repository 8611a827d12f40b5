#include "benchmarks/kv_series_op.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "registry/plan/registry.hpp"
#include "registry/user_ops/user_op.hpp"

using namespace kiln;

namespace {

enum Step : std::uint8_t { bytewise, vectorised, warp_per_row, rows_in_flight, contiguous_read };

constexpr std::array<const char*, 5> kKernels = {"thread_per_row", "thread_per_row", "warp_per_row", "rows_in_flight",
                                                 "contiguous_read"};

std::vector<TensorMeta> infer(std::span<const TensorView> inputs, const Attributes& /*attributes*/) {
  const TensorView &dst = inputs[0], &src = inputs[1], &indices = inputs[2];
  const auto is_row_list = [](const TensorView& rows) {
    return rows.ndim() == 2 && rows.strides[1] == 1 && rows.shape[1] % 16 == 0 && rows.strides[0] % 16 == 0 &&
           reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0;
  };
  if (!is_row_list(dst) || !is_row_list(src) || dst.shape[1] != src.shape[1])
    throw UsageError(UsageError::Kind::value,
                     "benchmark_kv_series: dst and src are rows of the same multiple of 16 bytes, at multiples of 16");
  if (!indices.is_contiguous() || indices.numel() % 2 != 0)
    throw UsageError(UsageError::Kind::value, "benchmark_kv_series: indices are dense pairs");
  return {};
}

LaunchPlan make_plan(const OpCall& call, const Config& config, const Target& /*target*/) {
  const TensorView &dst = call.inputs[0], &src = call.inputs[1];
  const auto step = static_cast<Step>(config.at("STEP"));
  KernelLaunch launch;
  launch.kernel = std::string("kiln::benchmark::") + kKernels[step];
  if (step == bytewise)
    launch.template_arguments = {1};
  else if (step == vectorised || step == warp_per_row)
    launch.template_arguments = {16};
  else
    launch.template_arguments = {config.at("ROWS")};
  launch.geometry.grid[0] = config.at("SMS");
  launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
  launch.vector_width = 1;
  launch.arguments.add_tensor(0);
  launch.arguments.add_tensor(1);
  launch.arguments.add_tensor(2);
  for (const std::int64_t number : {call.inputs[2].numel() / 2, dst.shape[1], dst.strides[0], src.strides[0]})
    launch.arguments.add_value(number);
  return {{std::move(launch)}, {}};
}

}  // namespace

void register_kv_series_op(const std::string& path) {
  OpSpec spec;
  spec.name = "benchmark_kv_series";
  spec.doc = "dst[indices[i][1]] = src[indices[i][0]], row by row, as the published kernels do it";
  spec.inputs = {{"dst", "", false, false, true}, {"src", "", false, false, false, true}, {"indices", ""}};
  spec.inputs[2].dtypes = {DType::i32};
  spec.dtypes = {DType::u8};
  spec.infer = infer;
  spec.cost = [](const OpCall& call) {
    const std::int64_t pairs = call.inputs[2].numel() / 2;
    return Cost{0, 2 * static_cast<double>(pairs * call.inputs[0].shape[1])};
  };
  Variant variant;
  variant.name = "series";
  variant.source = read_kernel_source(path);
  variant.kernel = "kiln::benchmark::warp_per_row";
  variant.serves = [](const OpCall&, const Target& target) { return target.type == DeviceType::cuda; };
  variant.space = [](const Target&) {
    return ConfigSpace{{{"STEP", {warp_per_row, bytewise, vectorised, rows_in_flight, contiguous_read}},
                        {"SMS", {16, 1, 2, 3, 4, 8, 32, 64, 132}},
                        {"ROWS", {4, 2, 8}},
                        {"num_warps", {32, 16, 8}}},
                       {{"STEP != 3 or ROWS * num_warps <= 128 (registers)", [](const Config& config) {
                           return config.at("STEP") != rows_in_flight ||
                                  config.at("ROWS") * config.at("num_warps") <= 128;
                         }}}};
  };
  variant.default_config = [](const OpCall&, const Target&) {
    return Config{{"STEP", warp_per_row}, {"SMS", 16}, {"ROWS", 4}, {"num_warps", 32}};
  };
  variant.plan = make_plan;
  spec.variants.push_back(std::move(variant));
  Registry::process().register_op(std::move(spec));
}
