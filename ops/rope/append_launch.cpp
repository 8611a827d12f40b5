#include "ops/rope/append_launch.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ops/common/call_parser.hpp"
#include "ops/common/grid_launch.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/rope/append_call.hpp"
#include "ops/rope/append_problem.hpp"
#include "ops/rope/launch.hpp"
#include "ops/rope/tiling.hpp"

namespace kiln::rope {
namespace {

/// `BLOCKS` of heads of a program, at most, in tiles of `BLOCK_H` heads on a CPU and of as many as num_warps make on a
/// GPU; there each token has programs of its own, on a CPU `TOKENS` share them.
ConfigSpace append_space(const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCKS", {64, 8}}, {"TOKENS", {8, 1, 32}}, {"BLOCK_H", {1, 4}}}, {}};
  return {{{"BLOCKS", {64, 1, 2, 4, 8}}, {"num_warps", {4, 1, 2, 8}}}, {}};
}

std::int64_t tile_heads(const AppendCall& call, const Config& config, const Target& target) {
  return is_cuda(target) ? tile_rows(call.form, call.dtype, config.at("num_warps")) : config.at("BLOCK_H");
}

/// Tiles of one token's heads: of q, keys and values.
std::int64_t num_blocks(const AppendCall& call, std::int64_t tile) {
  return ceil_div(call.iteration.query_heads, tile) + 2 * ceil_div(call.iteration.heads, tile);
}

Config append_default(const AppendCall& call, const Target& target) {
  const ops::RopeAppendIteration& it = call.iteration;
  Config config = common::first_config(append_space(target));
  if (!is_cuda(target)) {
    if (it.tokens * (it.query_heads + 2 * it.heads) * it.head_dim > 8 * kProgramElements) config.set("TOKENS", 32);
    return config;
  }
  const auto halve = [&](const char* tunable) { config.set(tunable, config.at(tunable) / 2); };
  while (config.at("num_warps") > 1 && tile_heads(call, config, target) / 2 >= it.heads) halve("num_warps");
  const std::int64_t blocks = num_blocks(call, tile_heads(call, config, target));
  const std::int64_t wanted = kBusyPrograms * known_processors(call.processors);
  const auto is_busy = [&] { return it.tokens * ceil_div(blocks, config.at("BLOCKS")) >= wanted; };
  while (config.at("BLOCKS") > 8 && !is_busy()) config.set("BLOCKS", 8);
  while (config.at("BLOCKS") > 1 && !is_busy()) halve("BLOCKS");
  return config;
}

LaunchPlan append_plan(const AppendCall& call, const Config& config, const Target& target) {
  ops::RopeAppendIteration it = call.iteration;
  const std::int64_t tile = tile_heads(call, config, target), blocks = num_blocks(call, tile);
  it.program_blocks = config.at("BLOCKS");
  it.parts = ceil_div(blocks, it.program_blocks);
  it.program_tokens = is_cuda(target) ? 1 : config.at("TOKENS");
  KernelLaunch launch =
      common::grid_launch(kAppendOp, it.parts * ceil_div(it.tokens, it.program_tokens), config, target);
  launch.template_arguments = {call.dtype, call.cache, call.table, call.position, call.slots, argument_of(call.form),
                               tile};
  launch.vector_width = call.form.is_dense ? static_cast<std::int32_t>(thread_elements(call.dtype)) : 1;
  common::KernelParameters(launch)
      .written(kQuery, call.dtype)
      .read(kKey, call.dtype)
      .read(kValue, call.dtype)
      .written(kKeyCache, call.cache)
      .written(kValueCache, call.cache)
      .read(kSlots, call.slots)
      .read(call.form.has_tables ? kAppendCos : -1, call.table)
      .read(call.form.has_tables ? kAppendSin : -1, call.table)
      .read(call.form.has_positions ? kAppendPositions : -1, call.position)
      .read(call.has_scales[0] ? kAppendKeyScale : -1, DType::f32)
      .read(call.has_scales[1] ? kAppendValueScale : -1, DType::f32)
      .value(it);
  return {{std::move(launch)}, {}};
}

}  // namespace

std::vector<Variant> append_variants() {
  const common::CallParser<AppendCall> parse(append_call);
  return {common::variant_of<AppendCall>(parse, {.name = "heads",
                                                 .doc = "tiles of a token's heads, which share cosines, sines and slot",
                                                 .source = embedded_source("ops/rope/kernel_append.hpp"),
                                                 .kernel = "kiln::ops::rope_append_kernel",
                                                 .space = append_space,
                                                 .default_config = append_default,
                                                 .plan = append_plan})};
}

}  // namespace kiln::rope
