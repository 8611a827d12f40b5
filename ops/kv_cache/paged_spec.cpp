#include "ops/kv_cache/paged_spec.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/kv_cache/append_call.hpp"
#include "ops/kv_cache/paged_call.hpp"
#include "ops/kv_cache/paged_examples.hpp"
#include "ops/kv_cache/paged_launch.hpp"
#include "ops/kv_cache/paged_reference.hpp"
#include "ops/kv_cache/swap_call.hpp"

namespace kiln::kv_cache {
namespace {

double bytes_of(const TensorView& view) {
  return static_cast<double>(view.numel() * itemsize_bytes(view.dtype));
}

InputSpec index_input(std::string name, std::string doc,
                      std::function<std::vector<SelectionRange>(const OpCall&)> selects) {
  InputSpec input{std::move(name), std::move(doc)};
  input.dtypes = {DType::i32, DType::i64};
  input.selects = std::move(selects);
  return input;
}

InputSpec slots_input(std::string doc) {
  return index_input("slot_mapping", std::move(doc), [](const OpCall& call) -> std::vector<SelectionRange> {
    const ops::PagedCache cache = append_call(call).iteration.caches[0];
    return {{.low = 0, .high = cache.num_blocks * cache.page - 1, .distinct = true}};
  });
}

InputSpec mutated_input(std::string name, std::string doc) {
  InputSpec input{std::move(name), std::move(doc)};
  input.mutated = true;
  return input;
}

InputSpec pinned(InputSpec input) {
  input.pinned = true;
  return input;
}

/// How many tokens of a sequence the table has entries for, and the output room.
std::int64_t most_tokens(const OpCall& call) {
  const CacheShape shape = cache_shape(call.inputs[0].shape, page_layout("kv_gather_paged", call.attributes));
  return std::min(call.attributes.get_int("max_len"), call.inputs[1].shape[1] * shape.page);
}

/// A number of tokens or blocks that changes from step to step: exact for decode batches, then by powers of two.
ShapeKeyRule::Part varying(int input, int axis) {
  return {.input = input, .axis = axis, .bucket = ShapeKeyRule::Bucket::power_of_two, .exact_up_to = 16};
}

/// How many blocks a cache has says nothing about the speed of a call that touches a few of them.
ShapeKeyRule::Part any_blocks(int input) {
  return {.input = input, .axis = 0, .bucket = ShapeKeyRule::Bucket::any};
}

/// What all of these share: bits of any dtype that are moved as they are.
OpSpec moving_spec(std::string name, std::string doc) {
  OpSpec spec;
  spec.name = std::move(name);
  spec.doc = std::move(doc);
  spec.dtypes.assign(kAllDTypes.begin(), kAllDTypes.end());
  spec.tolerance = [](DType) { return Tolerance{}; };
  return spec;
}

OpSpec paged_gather_spec() {
  OpSpec spec = moving_spec("kv_gather_paged",
                            "out[b, h, t] = cache[block_table[b, t / page], t % page, h] for t < seq_lens[b], zeros "
                            "from there to max_len and "
                            "where the entry is no block; table entries behind a sequence are not looked at");
  spec.inputs = {
      pinned({"cache", "[blocks, page, H, D], or [blocks, H, page, D] with layout HND"}),
      index_input("block_table", "[B, max_blocks], i32 or i64",
                  [](const OpCall& call) -> std::vector<SelectionRange> {
                    return {{.low = 0, .high = call.inputs[0].shape[0] - 1}};
                  }),
      index_input("seq_lens", "[B], i32 or i64, in tokens", [](const OpCall& call) -> std::vector<SelectionRange> {
        return {{.low = 0, .high = most_tokens(call)}};
      })};
  spec.outputs = {{"out", "[B, H, max_len, D]"}};
  spec.shape_rule.parts = {any_blocks(0), varying(1, 0), varying(1, 1), varying(2, 0)};
  spec.attributes = {{"max_len", std::int64_t{0}, true, "tokens of the output for each request"},
                     layout_attribute(),
                     check_bounds_attribute("seq_lens and the entries that they use")};
  spec.infer = infer_paged_gather;
  spec.variants = paged_gather_variants();
  spec.cost = [](const OpCall& call) {
    return Cost{0, 2 * bytes_of(call.outputs[0]) + bytes_of(call.inputs[1]) + bytes_of(call.inputs[2])};
  };
  spec.reference = paged_gather_reference;
  spec.examples = paged_gather_examples();
  spec.random_example = random_paged_gather;
  spec.spoil_inputs = spoil_paged_gather;
  spec.skipped_work = skipped_by_paged_gather;
  return spec;
}

OpSpec append_spec() {
  OpSpec spec =
      moving_spec("kv_append",
                  "key_cache[slot / page, slot % page, h] = key[t, h] with slot = slot_mapping[t], and value likewise; "
                  "tokens whose "
                  "slot is negative or none of the cache's are skipped; of tokens with one slot either is stored");
  spec.inputs = {{"key", "[T, H, D], any strides"},
                 {"value", "as key"},
                 mutated_input("key_cache", "[blocks, page, H, D], or [blocks, H, page, D] with layout HND"),
                 mutated_input("value_cache", "as key_cache"),
                 slots_input("[T], i32 or i64")};
  spec.attributes = {layout_attribute(), check_bounds_attribute("slot_mapping")};
  spec.shape_rule.parts = {varying(0, 0), varying(1, 0), any_blocks(2), any_blocks(3), varying(4, 0)};
  spec.infer = infer_append;
  spec.variants = append_variants();
  spec.cost = [](const OpCall& call) { return Cost{0, 2 * appended_bytes(call) + bytes_of(call.inputs[4])}; };
  spec.reference = append_reference;
  spec.examples = append_examples();
  spec.random_example = random_append;
  spec.spoil_inputs = spoil_slots;
  return spec;
}

OpSpec append_layers_spec() {
  OpSpec spec = moving_spec("kv_append_layers",
                            "kv_append for every layer in one launch: the caches are given by address, all of one "
                            "shape, key's dtype and dense but for block_stride");
  InputSpec key_caches = mutated_input("key_caches",
                                       "[L], i64: the address of each layer's key cache; what lies there "
                                       "is changed, on the device of the call");
  key_caches.dtypes = {DType::i64};
  key_caches.points_to = layer_cache_view;
  InputSpec value_caches = key_caches;
  value_caches.name = "value_caches";
  value_caches.doc = "as key_caches";
  spec.inputs = {{"key", "[L, T, H, D], any strides"},
                 {"value", "as key"},
                 std::move(key_caches),
                 std::move(value_caches),
                 slots_input("[T], i32 or i64, the same for all layers")};
  spec.shape_rule.parts = {varying(0, 1), varying(1, 1), varying(4, 0)};
  spec.attributes = {{"num_blocks", std::int64_t{0}, true, "blocks of each cache", /*decides_speed=*/false},
                     {"page", std::int64_t{0}, true, "tokens of a block"},
                     {"block_stride", std::int64_t{0}, false,
                      "elements from one block to the next; 0: page * H * D, blocks without gaps"},
                     layout_attribute(),
                     check_bounds_attribute("slot_mapping")};
  spec.infer = infer_append_layers;
  spec.variants = append_variants();
  spec.cost = [](const OpCall& call) { return Cost{0, 2 * appended_bytes(call) + bytes_of(call.inputs[4])}; };
  spec.reference = append_layers_reference;
  spec.examples = append_layers_examples();
  spec.random_example = random_append_layers;
  spec.spoil_inputs = spoil_slots;
  return spec;
}

OpSpec swap_spec() {
  OpSpec spec = moving_spec(
      "swap_blocks",
      "dst[d] = src[s] for each pair (s, d) of block_mapping, where a block is everything behind dimension 0; pairs "
      "with a negative side or one that is no block are skipped; either tensor may lie in pinned host memory");
  spec.inputs = {pinned(mutated_input("dst", "[blocks, ...], blocks dense")),
                 pinned({"src", "[blocks, ...], blocks dense and of dst's shape"}),
                 index_input("block_mapping", "[n, 2], i32 or i64: a block of src and one of dst",
                             [](const OpCall& call) -> std::vector<SelectionRange> {
                               return {{.low = 0, .high = call.inputs[1].shape[0] - 1},
                                       {.low = 0, .high = call.inputs[0].shape[0] - 1, .distinct = true}};
                             })};
  spec.attributes = {check_bounds_attribute("block_mapping")};
  spec.shape_rule.parts = {any_blocks(0), any_blocks(1), varying(2, 0)};
  spec.infer = infer_swap;
  spec.variants = swap_variants();
  spec.cost = [](const OpCall& call) {
    const TensorView& dst = call.inputs[0];
    const double block = dst.shape[0] == 0 ? 0 : bytes_of(dst) / static_cast<double>(dst.shape[0]);
    return Cost{0, 2 * block * static_cast<double>(call.inputs[2].shape[0]) + bytes_of(call.inputs[2])};
  };
  spec.reference = swap_reference;
  spec.examples = swap_examples();
  spec.random_example = random_swap;
  spec.spoil_inputs = spoil_swap;
  return spec;
}

}  // namespace

std::vector<OpSpec> paged_specs() {
  return {paged_gather_spec(), append_spec(), append_layers_spec(), swap_spec()};
}

}  // namespace kiln::kv_cache
