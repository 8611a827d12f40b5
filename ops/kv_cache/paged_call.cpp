#include "ops/kv_cache/paged_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/errors.hpp"

namespace kiln::kv_cache {

PageLayout page_layout(std::string_view op, const Attributes& attributes) {
  const std::string& layout = attributes.get_string("layout");
  if (layout == "NHD") return PageLayout::nhd;
  if (layout == "HND") return PageLayout::hnd;
  throw_value_error(fmt::format(
      "op '{}': attribute 'layout' is \"{}\", expected \"NHD\" (blocks of [page, H, D]) or \"HND\" ([H, page, D])", op,
      layout));
}

AttributeSpec layout_attribute() {
  return {"layout", std::string("NHD"), false, "a block's dimensions: \"NHD\" is [page, H, D], \"HND\" [H, page, D]"};
}

AttributeSpec check_bounds_attribute(const std::string& what) {
  return {"check_bounds", false, false,
          "look through " + what + " first and refuse the call at the first bad entry; waits for the stream"};
}

std::string_view shape_text(PageLayout layout) {
  return layout == PageLayout::nhd ? "[blocks, page, H, D]" : "[blocks, H, page, D]";
}

CacheShape cache_shape(const Dims& shape, PageLayout layout) {
  const bool nhd = layout == PageLayout::nhd;
  return {shape[0], shape[nhd ? 1 : 2], shape[nhd ? 2 : 1], shape[3]};
}

ops::PagedCache paged_cache(const TensorView& cache, PageLayout layout) {
  const bool nhd = layout == PageLayout::nhd;
  const CacheShape shape = cache_shape(cache.shape, layout);
  return {shape.page == 0 ? 0 : shape.num_blocks,
          std::max<std::int64_t>(shape.page, 1),
          step(cache, 0),
          step(cache, nhd ? 1 : 2),
          step(cache, nhd ? 2 : 1),
          element_step(cache)};
}

std::int64_t step(const TensorView& view, int axis) {
  return view.shape[axis] > 1 ? view.strides[axis] : 0;
}

std::int64_t element_step(const TensorView& view) {
  const int last = view.ndim() - 1;
  return view.shape[last] > 1 ? view.strides[last] : 1;
}

void check_rank(std::string_view op, std::string_view name, const TensorView& view, int rank,
                std::string_view expected) {
  if (view.ndim() != rank)
    throw_value_error(
        fmt::format("op '{}': input '{}' has shape {}, expected {}", op, name, to_string(view.shape), expected));
}

std::vector<TensorMeta> infer_paged_gather(std::span<const TensorView> inputs, const Attributes& attributes) {
  constexpr std::string_view kOp = "kv_gather_paged";
  const TensorView &cache = inputs[0], &table = inputs[1], &lengths = inputs[2];
  const PageLayout layout = page_layout(kOp, attributes);
  check_rank(kOp, "cache", cache, 4, shape_text(layout));
  check_rank(kOp, "block_table", table, 2, "[B, max_blocks]");
  check_rank(kOp, "seq_lens", lengths, 1, "[B], a length for each row of 'block_table'");
  if (lengths.shape[0] != table.shape[0])
    throw_value_error(
        fmt::format("op '{}': input 'seq_lens' has {} lengths and 'block_table' {} rows; expected one for each request",
                    kOp, lengths.shape[0], table.shape[0]));
  const std::int64_t max_len = attributes.get_int("max_len");
  if (max_len < 0)
    throw_value_error(fmt::format("op '{}': attribute 'max_len' is {}, expected 0 or more tokens", kOp, max_len));
  const CacheShape shape = cache_shape(cache.shape, layout);
  return {{cache.dtype, Dims{table.shape[0], shape.heads, max_len, shape.width}}};
}

PagedGatherCall paged_gather_call(const OpCall& call) {
  const TensorView &cache = call.inputs[0], &table = call.inputs[1], &lengths = call.inputs[2], &out = call.outputs[0];
  PagedGatherCall gather;
  ops::PagedGatherIteration& it = gather.iteration;
  it = {};
  it.cache = paged_cache(cache, page_layout("kv_gather_paged", call.attributes));
  it.tokens = out.shape[2];
  it.readable_tokens = std::min<std::int64_t>(it.tokens, table.shape[1] * it.cache.page);
  it.heads = out.shape[1];
  it.width = out.shape[3];
  it.table_strides[0] = step(table, 0);
  it.table_strides[1] = step(table, 1);
  it.length_stride = step(lengths, 0);
  for (int axis = 0; axis < 3; ++axis) it.out_strides[axis] = step(out, axis);
  it.out_strides[3] = element_step(out);
  gather.dtype = out.dtype;
  gather.table = table.dtype;
  gather.lengths = lengths.dtype;
  gather.requests = table.shape[0];
  gather.cache_shape = cache.shape;
  gather.table_shape = table.shape;
  gather.check_bounds = call.attributes.get_bool("check_bounds");
  return gather;
}

}  // namespace kiln::kv_cache
