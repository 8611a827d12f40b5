#include "ops/random/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid_launch.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/common/walk_dim.hpp"

namespace kiln::random {
namespace {

/// Blocks of Philox in a thread: they hide its latency from one another and share what a thread does once. Normal
/// numbers are bound by instructions, of which four blocks take 7% fewer each than two.
constexpr std::int64_t kLeastBlocks = 2;
constexpr std::int64_t kLeastNormalBlocks = 4;
/// What a thread should move, for programs of four warps that are long enough to be launched at full rate
/// (docs/performance.md).
constexpr std::int64_t kThreadBytes = 32;
constexpr std::int64_t kDefaultWarps = 4;
constexpr std::int64_t kMostElementsPerThread = 32;

/// All operands' dimensions in row-major order, the last first; those of extent 1 dropped, neighbours that every
/// operand runs through as one merged.
ops::RowMajorIteration row_major(const OpCall& call) {
  const TensorView& out = call.outputs[0];
  const TensorView& in = call.inputs.empty() ? out : call.inputs[0];
  std::vector<common::WalkDim<2>> dims;
  for (int axis = out.ndim() - 1; axis >= 0; --axis)
    if (out.shape[axis] != 1) dims.push_back({out.shape[axis], {out.strides[axis], in.strides[axis]}});
  ops::RowMajorIteration iteration{};
  iteration.n = out.numel();
  for (const common::WalkDim<2>& dim : common::merged(dims)) {
    iteration.extents[iteration.num_dims] = dim.extent;
    for (int o = 0; o < 2; ++o) iteration.strides[o][iteration.num_dims] = dim.strides[static_cast<std::size_t>(o)];
    ++iteration.num_dims;
  }
  return iteration;
}

/// A call as the kernels see it.
struct RandomCall {
  Draw draw;
  DType out = DType::f32;
  std::optional<DType> in;
  ops::RowMajorIteration iteration{};

  bool is_contiguous() const {
    return iteration.num_dims == 0 ||
           (iteration.num_dims == 1 && iteration.strides[0][0] == 1 && iteration.strides[1][0] == 1);
  }
  std::int64_t bytes_per_element() const { return itemsize_bytes(out) + (in ? itemsize_bytes(*in) : 0); }
  /// Neighbours that a thread holds: a 16-byte access, and a whole block of Philox.
  std::int64_t vector_width() const {
    return std::max<std::int64_t>(16 / itemsize_bytes(out), draw.elements_per_block);
  }
};

RandomCall random_call(Kind kind, const OpCall& call) {
  RandomCall result;
  result.draw = draw_of(kind, call);
  result.out = call.outputs[0].dtype;
  result.iteration = row_major(call);
  if (!call.inputs.empty()) result.in = call.inputs[0].dtype;
  return result;
}

/// tl::philox_keys on the host.
ops::RoundKeys round_keys(std::uint64_t seed) {
  ops::RoundKeys keys{};
  for (unsigned round = 0; round < std::size(keys.low); ++round) {
    keys.low[round] = static_cast<unsigned>(seed) + round * 0x9e3779b9U;
    keys.high[round] = static_cast<unsigned>(seed >> 32) + round * 0xbb67ae85U;
  }
  return keys;
}

std::string functor_of(const Draw& draw) {
  const std::string_view compute = info(draw.compute).tl_name;
  switch (draw.kind) {
    case Kind::uniform:
      return fmt::format("kiln::ops::Uniform<{}>", compute);
    case Kind::normal:
      return fmt::format("kiln::ops::Normal<{}>", compute);
    case Kind::randint:
      return fmt::format("kiln::ops::RandInt<{}>", 128 / draw.elements_per_block);
    case Kind::bernoulli:
      return "kiln::ops::Bernoulli";
    case Kind::dropout:
      break;
  }
  return fmt::format("kiln::ops::Dropout<{}>", compute);
}

ConfigSpace space(const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_SIZE", {64, 128, 32, 256}}}, {}};
  const common::ConfigExpression block("BLOCK_SIZE"), warps("num_warps");
  return {{{"BLOCK_SIZE", {1024, 2048, 512, 4096, 256, 8192, 128}}, {"num_warps", {kDefaultWarps, 8, 2, 16, 1}}},
          {block >= 32 * warps, block <= (32 * kMostElementsPerThread) * warps}};
}

/// Each thread holds `elements`.
Config default_config(std::int64_t elements, const Target& target) {
  if (!is_cuda(target)) return {{"BLOCK_SIZE", 64}};
  return {{"BLOCK_SIZE", 32 * kDefaultWarps * ceil_power_of_two(elements)}, {"num_warps", kDefaultWarps}};
}

/// What both kernels share: `extent` is the second parameter, `index` the template argument after the block size.
template <typename Extent>
LaunchPlan make_plan(const RandomCall& call, const Config& config, const Extent& extent,
                     const std::vector<TemplateArgument>& index, const Target& target) {
  const std::int64_t block_size = config.at("BLOCK_SIZE");
  KernelLaunch launch =
      common::grid_launch(op_name(call.draw.kind), ceil_div(call.iteration.n, block_size), config, target);
  launch.template_arguments = {TypeName{functor_of(call.draw)}, block_size};
  launch.template_arguments.insert(launch.template_arguments.end(), index.begin(), index.end());
  launch.template_arguments.emplace_back(call.out);
  common::KernelParameters parameters(launch);
  parameters.written(0, call.out).value(extent).value(static_cast<unsigned long long>(call.draw.offset));
  if (call.in) {
    launch.template_arguments.emplace_back(*call.in);
    parameters.read(1, *call.in);
  }
  parameters.value(round_keys(call.draw.seed)).value(call.draw.parameters);
  launch.vector_width = static_cast<std::int32_t>(call.vector_width());
  return {{std::move(launch)}, {}};
}

Config contiguous_default(const RandomCall& call, const Target& target) {
  const std::int64_t blocks = call.draw.kind == Kind::normal ? kLeastNormalBlocks : kLeastBlocks;
  return default_config(
      std::max({blocks * call.draw.elements_per_block, kThreadBytes / call.bytes_per_element(), call.vector_width()}),
      target);
}

LaunchPlan contiguous_plan(const RandomCall& call, const Config& config, const Target& target) {
  if (!call.is_contiguous()) throw InternalError("the contiguous variant was planned for a strided call");
  return make_plan(call, config, call.iteration.n, {}, target);
}

LaunchPlan strided_plan(const RandomCall& call, const Config& config, const Target& target) {
  const DType index = call.iteration.n <= std::numeric_limits<std::int32_t>::max() ? DType::u32 : DType::u64;
  LaunchPlan plan = make_plan(call, config, call.iteration, {index}, target);
  plan.launches[0].vector_width = call.draw.elements_per_block;  // no access is wide
  return plan;
}

}  // namespace

Draw draw_of(Kind kind, const OpCall& call) {
  return resolve_draw(kind, call.outputs[0].dtype, call.attributes);
}

std::vector<Variant> random_variants(Kind kind, const KernelSource& source) {
  const common::CallParser<RandomCall> parse([kind](const OpCall& call) { return random_call(kind, call); });
  return {common::variant_of<RandomCall>(
              parse, {.name = "contiguous",
                      .doc = "every operand is dense and row-major: one linear run",
                      .source = source,
                      .kernel = "kiln::ops::random_contiguous_kernel",
                      .serves = [](const RandomCall& call, const Target&) { return call.is_contiguous(); },
                      .space = space,
                      .default_config = contiguous_default,
                      .plan = contiguous_plan}),
          common::variant_of<RandomCall>(
              parse, {.name = "strided",
                      .doc = "any strides: each element's coordinates are computed from its row-major index",
                      .source = source,
                      .kernel = "kiln::ops::random_strided_kernel",
                      .space = space,
                      // Each element has its own offsets: two registers.
                      .default_config =
                          [](const RandomCall& call, const Target& target) {
                            return default_config(call.draw.elements_per_block, target);
                          },
                      .plan = strided_plan})};
}

}  // namespace kiln::random
