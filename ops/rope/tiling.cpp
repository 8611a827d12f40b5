#include "ops/rope/tiling.hpp"

#include <algorithm>

#include "ops/common/call_parser.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"

namespace kiln::rope {
namespace {

constexpr std::int64_t kWarpThreads = 32;

}  // namespace

std::int64_t thread_elements(DType dtype) {
  return 16 / itemsize_bytes(dtype);
}

std::int64_t tile_rows(const ops::RopeForm& form, DType dtype, std::int64_t num_warps) {
  return std::max<std::int64_t>(kWarpThreads * num_warps * thread_elements(dtype) / row_width(form), 1);
}

std::int64_t tile_tokens(const RopeCall& call, const Config& config, const Target& target) {
  return is_cuda(target) ? tile_rows(call.form, call.dtype, config.at("num_warps")) : config.at("BLOCK_T");
}

ConfigSpace rope_space(const Target& target) {
  const common::ConfigExpression heads("HEADS"), in_flight("IN_FLIGHT"), tokens("TOKENS"), block("BLOCK_T");
  if (!is_cuda(target))
    return {{{"HEADS", {64, 16, 4}}, {"TOKENS", {32, 1, 8, 128}}, {"BLOCK_T", {1, 4}}, {"IN_FLIGHT", {1, 2}}},
            {tokens % block == 0, heads >= in_flight}};
  return {{{"HEADS", {8, 1, 2, 4, 16, 32}}, {"IN_FLIGHT", {2, 1, 4}}, {"num_warps", {4, 1, 2, 8}}},
          {heads >= in_flight}};
}

Config default_tiling(const RopeCall& call, const Target& target) {
  const ops::RopeIteration& it = call.iteration;
  Config config = common::first_config(rope_space(target));
  if (!is_cuda(target)) {
    const std::int64_t token_elements = std::min<std::int64_t>(config.at("HEADS"), it.heads) * it.head_dim;
    const auto fits = [&](std::int64_t tokens) { return tokens * token_elements <= kProgramElements; };
    config.set("TOKENS", fits(128) ? 128 : fits(32) ? 32 : fits(8) ? 8 : 1);
    return config;
  }
  const auto halve = [&](const char* tunable) { config.set(tunable, config.at(tunable) / 2); };
  // A row's pairs are with one thread each as long as the program has threads for a whole one.
  while (config.at("num_warps") < 8 &&
         kWarpThreads * config.at("num_warps") * thread_elements(call.dtype) < row_width(call.form))
    config.set("num_warps", config.at("num_warps") * 2);
  // Tokens that are few take the fewest threads.
  while (config.at("num_warps") > 1 && tile_tokens(call, config, target) / 2 >= it.tokens) halve("num_warps");
  const auto programs = [&] {
    return call.outer * ceil_div(it.tokens, tile_tokens(call, config, target)) * ceil_div(it.heads, config.at("HEADS"));
  };
  const std::int64_t wanted = kBusyPrograms * known_processors(call.processors);
  while (config.at("HEADS") > 1 && (config.at("HEADS") / 2 >= it.heads || programs() < wanted)) halve("HEADS");
  config.set("IN_FLIGHT", std::min(config.at("IN_FLIGHT"), config.at("HEADS")));
  return config;
}

}  // namespace kiln::rope
