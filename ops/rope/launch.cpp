#include "ops/rope/launch.hpp"

#include <utility>

#include "ops/common/call_parser.hpp"
#include "ops/common/grid_launch.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/rope/call.hpp"
#include "ops/rope/problem.hpp"
#include "ops/rope/tiling.hpp"

namespace kiln::rope {
namespace {

LaunchPlan plan_of(const RopeCall& call, const Config& config, const Target& target) {
  ops::RopeIteration it = call.iteration;
  if (it.tokens == 0 || it.heads == 0 || call.outer == 0) return {};
  const std::int64_t tile = tile_tokens(call, config, target);
  const bool is_one_tile = is_cuda(target);
  it.program_heads = config.at("HEADS");
  it.head_blocks = ceil_div(it.heads, it.program_heads);
  it.program_tokens = is_one_tile ? tile : config.at("TOKENS");
  it.token_blocks = ceil_div(it.tokens, it.program_tokens);
  KernelLaunch launch = common::grid_launch(kOp, call.outer * it.token_blocks * it.head_blocks, config, target);
  launch.template_arguments = {call.dtype, call.table,  call.position,         argument_of(call.form),
                               tile,       is_one_tile, config.at("IN_FLIGHT")};
  launch.vector_width = call.form.is_dense ? static_cast<std::int32_t>(thread_elements(call.dtype)) : 1;
  const auto tensor = [](Input input, bool is_there) { return is_there ? 1 + input : -1; };
  common::KernelParameters(launch)
      .written(0, call.dtype)
      .read(tensor(kX, true), call.dtype)
      .read(tensor(kCos, call.form.has_tables), call.table)
      .read(tensor(kSin, call.form.has_tables), call.table)
      .read(tensor(kPositions, call.form.has_positions), call.position)
      .value(it);
  return {{std::move(launch)}, {}};
}

}  // namespace

// Names every field: one that is added to the struct does not compile here, and one that is named otherwise, or out of
// order, not with the kernel.
StructValue argument_of(const ops::RopeForm& form) {
  const auto& [rotary_dim, interleaved, is_dense, copies_rest, inverse, has_tables, dense_tables, has_positions,
               blends] = form;
  return {"kiln::ops::RopeForm",
          {{"rotary_dim", rotary_dim},
           {"interleaved", interleaved},
           {"is_dense", is_dense},
           {"copies_rest", copies_rest},
           {"inverse", inverse},
           {"has_tables", has_tables},
           {"dense_tables", dense_tables},
           {"has_positions", has_positions},
           {"blends", blends}}};
}

std::vector<Variant> rope_variants() {
  const common::CallParser<RopeCall> parse(rope_call);
  return {
      common::variant_of<RopeCall>(parse, {.name = "tokens",
                                           .doc = "cosines and sines of a tile of tokens, for all heads of a program",
                                           .source = embedded_source("ops/rope/kernel.hpp"),
                                           .kernel = "kiln::ops::rope_kernel",
                                           .space = rope_space,
                                           .default_config = default_tiling,
                                           .plan = plan_of})};
}

}  // namespace kiln::rope
