#include "ops/kv_cache/append_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/errors.hpp"

namespace kiln::kv_cache {
namespace {

using Views = std::span<const TensorView>;

void check_same(std::string_view op, std::string_view name, const TensorView& view, std::string_view model_name,
                const TensorView& model, bool by_shape) {
  if (view.dtype != model.dtype)
    throw_type_error(
        fmt::format("op '{}': input '{}' is {}, expected the dtype of '{}', {}; bits are moved as they are", op, name,
                    describe(view), model_name, kiln::name(model.dtype)));
  if (by_shape && view.shape != model.shape)
    throw_value_error(fmt::format("op '{}': input '{}' has shape {}, expected that of '{}', {}", op, name,
                                  to_string(view.shape), model_name, to_string(model.shape)));
}

void check_slots(std::string_view op, const TensorView& slots, std::int64_t tokens) {
  check_rank(op, "slot_mapping", slots, 1, "[T], a slot for each token");
  if (slots.shape[0] != tokens)
    throw_value_error(fmt::format("op '{}': input 'slot_mapping' has {} slots and 'key' {} tokens; expected one each",
                                  op, slots.shape[0], tokens));
}

void check_cache(std::string_view op, std::string_view name, const TensorView& cache, const TensorView& key,
                 PageLayout layout) {
  check_rank(op, name, cache, 4, shape_text(layout));
  const CacheShape shape = cache_shape(cache.shape, layout);
  if (shape.heads != key.shape[1] || shape.width != key.shape[2])
    throw_value_error(fmt::format(
        "op '{}': input '{}' has shape {}, which as {} holds {} heads of {} elements; 'key' {} has {} of {}", op, name,
        to_string(cache.shape), shape_text(layout), shape.heads, shape.width, to_string(key.shape), key.shape[1],
        key.shape[2]));
}

/// A cache of kv_append_layers: dense blocks, `block_stride` elements apart.
ops::PagedCache layer_cache(const TensorView& key, const Attributes& attributes) {
  const std::int64_t heads = key.shape[2], width = key.shape[3], page = attributes.get_int("page");
  const std::int64_t given = attributes.get_int("block_stride");
  const std::int64_t block_stride = given == 0 ? page * heads * width : given;
  const bool nhd = page_layout("kv_append_layers", attributes) == PageLayout::nhd;
  return {attributes.get_int("num_blocks"), page, block_stride, nhd ? heads * width : width,
          nhd ? width : page * width,       1};
}

/// Rows of one token that lie behind one another everywhere become one.
void join_heads(ops::PagedAppendIteration& it) {
  for (int kind = 0; kind < 2; ++kind) {
    const bool dense = it.caches[kind].element_stride == 1 && it.strides[kind][3] == 1;
    const bool adjacent = it.heads == 1 || (it.caches[kind].head_stride == it.width && it.strides[kind][2] == it.width);
    if (!dense || !adjacent) return;
  }
  it.width *= it.heads;
  it.heads = 1;
}

}  // namespace

void check_append(std::string_view op, Views inputs, PageLayout layout, bool quantises) {
  const TensorView& key = inputs[0];
  check_rank(op, "key", key, 3, "[T, H, D]");
  check_same(op, "value", inputs[1], "key", key, true);
  if (!quantises || !is_fp8(inputs[2].dtype)) check_same(op, "key_cache", inputs[2], "key", key, false);
  check_same(op, "value_cache", inputs[3], "key_cache", inputs[2], true);
  check_cache(op, "key_cache", inputs[2], key, layout);
  check_slots(op, inputs[4], key.shape[0]);
}

std::vector<TensorMeta> infer_append(Views inputs, const Attributes& attributes) {
  check_append("kv_append", inputs, page_layout("kv_append", attributes));
  return {};
}

std::vector<TensorMeta> infer_append_layers(Views inputs, const Attributes& attributes) {
  constexpr std::string_view kOp = "kv_append_layers";
  page_layout(kOp, attributes);
  const TensorView& key = inputs[0];
  check_rank(kOp, "key", key, 4, "[L, T, H, D]");
  check_same(kOp, "value", inputs[1], "key", key, true);
  for (const std::size_t table : {std::size_t{2}, std::size_t{3}}) {
    const std::string_view name = table == 2 ? "key_caches" : "value_caches";
    check_rank(kOp, name, inputs[table], 1, "[L], the address of each layer's cache");
    if (inputs[table].shape[0] != key.shape[0])
      throw_value_error(fmt::format("op '{}': input '{}' has {} addresses and 'key' {} layers; expected one each", kOp,
                                    name, inputs[table].shape[0], key.shape[0]));
  }
  check_slots(kOp, inputs[4], key.shape[1]);
  const std::int64_t num_blocks = attributes.get_int("num_blocks"), page = attributes.get_int("page");
  if (num_blocks < 0 || page < 1)
    throw_value_error(fmt::format(
        "op '{}': attributes 'num_blocks' and 'page' are {} and {}, expected 0 or more blocks of 1 or more tokens", kOp,
        num_blocks, page));
  const std::int64_t block = page * key.shape[2] * key.shape[3], stride = attributes.get_int("block_stride");
  if (stride != 0 && stride < block)
    throw_value_error(fmt::format(
        "op '{}': attribute 'block_stride' is {} elements, expected 0 (no gaps) or at least a block, {} * {} * {} = {}",
        kOp, stride, page, key.shape[2], key.shape[3], block));
  return {};
}

AppendCall append_call(const OpCall& call) {
  AppendCall append{};
  append.by_table = call.inputs[0].ndim() == 4;
  const int first = append.by_table ? 1 : 0;  // the dimension of tokens
  ops::PagedAppendIteration& it = append.iteration;
  for (const std::size_t kind : {std::size_t{0}, std::size_t{1}}) {
    const TensorView &rows = call.inputs[kind], &cache = call.inputs[2 + kind];
    it.caches[kind] = append.by_table ? layer_cache(rows, call.attributes)
                                      : paged_cache(cache, page_layout("kv_append", call.attributes));
    it.strides[kind][0] = append.by_table ? step(rows, 0) : 0;
    it.strides[kind][1] = step(rows, first);
    it.strides[kind][2] = step(rows, first + 1);
    it.strides[kind][3] = element_step(rows);
    it.table_strides[kind] = append.by_table ? step(cache, 0) : 0;
  }
  const Dims& shape = call.inputs[0].shape;
  append.layers = append.by_table ? shape[0] : 1;
  it.tokens = shape[first];
  it.heads = shape[first + 1];
  it.width = shape[first + 2];
  it.slot_stride = step(call.inputs[4], 0);
  join_heads(it);
  append.dtype = call.inputs[0].dtype;
  append.slots = call.inputs[4].dtype;
  append.elements = call.inputs[0].numel();
  append.check_bounds = call.attributes.get_bool("check_bounds");
  return append;
}

TensorView layer_cache_view(const OpCall& call) {
  const TensorView& key = call.inputs[0];
  const ops::PagedCache cache = layer_cache(key, call.attributes);
  TensorView view =
      dense_view(nullptr, key.dtype, {cache.num_blocks, cache.page * key.shape[2] * key.shape[3]}, key.device);
  view.strides[0] = cache.block_stride;
  return view;
}

double appended_bytes(const OpCall& call) {
  const TensorView& key = call.inputs[0];
  return 2 * static_cast<double>(key.numel() * itemsize_bytes(key.dtype));
}

}  // namespace kiln::kv_cache
