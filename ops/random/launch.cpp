#include "ops/random/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "ops/grid.hpp"

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

std::int64_t bytes_per_element(const OpCall& call) {
  std::int64_t bytes = itemsize_bytes(call.outputs[0].dtype);
  for (const TensorView& input : call.inputs) bytes += itemsize_bytes(input.dtype);
  return bytes;
}

/// Neighbours that a thread holds: a 16-byte access, and a whole block of Philox.
std::int64_t vector_width(const Draw& draw, const OpCall& call) {
  return std::max<std::int64_t>(16 / itemsize_bytes(call.outputs[0].dtype), draw.elements_per_block);
}

/// All operands' dimensions in row-major order, the last first; those of extent 1 dropped, neighbours that every
/// operand runs through as one merged.
ops::RowMajorIteration row_major(const OpCall& call) {
  const TensorView* const operands[2] = {&call.outputs[0], call.inputs.empty() ? &call.outputs[0] : &call.inputs[0]};
  ops::RowMajorIteration iteration{};
  iteration.n = call.outputs[0].numel();
  for (int axis = call.outputs[0].ndim() - 1; axis >= 0; --axis) {
    const std::int64_t extent = call.outputs[0].shape[axis];
    if (extent == 1) continue;
    const int last = iteration.num_dims - 1;
    const auto steps_on = [&](int o) {
      return operands[o]->strides[axis] == iteration.strides[o][last] * iteration.extents[last];
    };
    const bool merges = last >= 0 && steps_on(0) && steps_on(1);
    if (merges) {
      iteration.extents[last] *= extent;
      continue;
    }
    iteration.extents[iteration.num_dims] = extent;
    for (int o = 0; o < 2; ++o) iteration.strides[o][iteration.num_dims] = operands[o]->strides[axis];
    ++iteration.num_dims;
  }
  return iteration;
}

bool is_contiguous(const ops::RowMajorIteration& iteration) {
  return iteration.num_dims == 0 ||
         (iteration.num_dims == 1 && iteration.strides[0][0] == 1 && iteration.strides[1][0] == 1);
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
  return {{{"BLOCK_SIZE", {1024, 2048, 512, 4096, 256, 8192, 128}}, {"num_warps", {kDefaultWarps, 8, 2, 16, 1}}},
          {{"BLOCK_SIZE >= 32 * num_warps",
            [](const Config& config) { return config.at("BLOCK_SIZE") >= 32 * config.at("num_warps"); }},
           {fmt::format("BLOCK_SIZE <= {} * num_warps", 32 * kMostElementsPerThread), [](const Config& config) {
              return config.at("BLOCK_SIZE") <= 32 * kMostElementsPerThread * config.at("num_warps");
            }}}};
}

/// Each thread holds `elements`.
Config default_config(std::int64_t elements, const Target& target) {
  if (!is_cuda(target)) return {{"BLOCK_SIZE", 64}};
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(elements)));
  return {{"BLOCK_SIZE", 32 * kDefaultWarps * power}, {"num_warps", kDefaultWarps}};
}

/// What both kernels share: `extent` is the second parameter, `index` the template argument after the block size.
template <typename Extent>
LaunchPlan make_plan(const Draw& draw, const OpCall& call, const Config& config, const Extent& extent,
                     const std::vector<TemplateArgument>& index, const Target& target) {
  const std::int64_t block_size = config.at("BLOCK_SIZE");
  const std::int64_t programs = (call.outputs[0].numel() + block_size - 1) / block_size;
  check_grid(op_name(draw.kind), programs, target);
  KernelLaunch launch;
  launch.template_arguments = {TypeName{functor_of(draw)}, block_size};
  launch.template_arguments.insert(launch.template_arguments.end(), index.begin(), index.end());
  launch.template_arguments.emplace_back(call.outputs[0].dtype);
  launch.arguments.add_tensor(0);
  launch.arguments.add_value(extent);
  launch.arguments.add_value(static_cast<unsigned long long>(draw.offset));
  if (!call.inputs.empty()) {
    launch.template_arguments.emplace_back(call.inputs[0].dtype);
    launch.arguments.add_tensor(1);
  }
  launch.arguments.add_value(round_keys(draw.seed));
  launch.arguments.add_value(draw.parameters);
  launch.geometry.grid = {programs, 1, 1};
  if (const std::int64_t* num_warps = config.find("num_warps"))
    launch.geometry.num_warps = static_cast<std::int32_t>(*num_warps);
  launch.vector_width = static_cast<std::int32_t>(vector_width(draw, call));
  return {{std::move(launch)}, {}};
}

Variant contiguous(Kind kind) {
  Variant variant;
  variant.name = "contiguous";
  variant.doc = "every operand is dense and row-major: one linear run";
  variant.kernel = "kiln::ops::random_contiguous_kernel";
  variant.serves = [](const OpCall& call, const Target&) { return is_contiguous(row_major(call)); };
  variant.default_config = [kind](const OpCall& call, const Target& target) {
    const Draw draw = draw_of(kind, call);
    const std::int64_t blocks = kind == Kind::normal ? kLeastNormalBlocks : kLeastBlocks;
    return default_config(
        std::max({blocks * draw.elements_per_block, kThreadBytes / bytes_per_element(call), vector_width(draw, call)}),
        target);
  };
  variant.plan = [kind](const OpCall& call, const Config& config, const Target& target) {
    const ops::RowMajorIteration iteration = row_major(call);
    if (!is_contiguous(iteration)) throw InternalError("the contiguous variant was planned for a strided call");
    return make_plan(draw_of(kind, call), call, config, iteration.n, {}, target);
  };
  return variant;
}

Variant strided(Kind kind) {
  Variant variant;
  variant.name = "strided";
  variant.doc = "any strides: each element's coordinates are computed from its row-major index";
  variant.kernel = "kiln::ops::random_strided_kernel";
  variant.serves = [](const OpCall&, const Target&) { return true; };
  variant.default_config = [kind](const OpCall& call, const Target& target) {
    return default_config(draw_of(kind, call).elements_per_block, target);  // each has its own offsets: two registers
  };
  variant.plan = [kind](const OpCall& call, const Config& config, const Target& target) {
    const ops::RowMajorIteration iteration = row_major(call);
    const DType index = iteration.n <= std::numeric_limits<std::int32_t>::max() ? DType::u32 : DType::u64;
    const Draw draw = draw_of(kind, call);
    LaunchPlan plan = make_plan(draw, call, config, iteration, {index}, target);
    plan.launches[0].vector_width = draw.elements_per_block;  // no access is wide
    return plan;
  };
  return variant;
}

}  // namespace

Draw draw_of(Kind kind, const OpCall& call) {
  return resolve_draw(kind, call.outputs[0].dtype, call.attributes);
}

std::vector<Variant> random_variants(Kind kind, const KernelSource& source) {
  std::vector<Variant> variants = {contiguous(kind), strided(kind)};
  for (Variant& variant : variants) {
    variant.source = source;
    variant.space = space;
  }
  return variants;
}

}  // namespace kiln::random
