#include "ops/kv_cache/paged_reference.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "ops/common/element.hpp"

namespace kiln::kv_cache {
namespace {

std::byte* at(const TensorView& view, std::initializer_list<std::int64_t> position) {
  std::int64_t offset = 0;
  int axis = 0;
  for (const std::int64_t coordinate : position) offset += coordinate * view.strides[axis++];
  return common::address_at(view, offset);
}

std::int64_t index_at(const TensorView& view, std::initializer_list<std::int64_t> position) {
  return common::load_element<std::int64_t>(at(view, position), view.dtype);
}

std::byte* in_cache(const TensorView& cache, PageLayout layout, std::int64_t block, std::int64_t place,
                    std::int64_t head, std::int64_t element) {
  return layout == PageLayout::nhd ? at(cache, {block, place, head, element})
                                   : at(cache, {block, head, place, element});
}

std::size_t size_of(const TensorView& view) {
  return static_cast<std::size_t>(itemsize_bytes(view.dtype));
}

}  // namespace

void append_rows(const TensorView& rows, const TensorView& cache, const TensorView& slots, PageLayout layout) {
  const CacheShape shape = cache_shape(cache.shape, layout);
  for (std::int64_t token = 0; token < rows.shape[0]; ++token) {
    const std::int64_t slot = index_at(slots, {token});
    if (slot < 0 || slot >= shape.num_blocks * shape.page) continue;
    for (std::int64_t head = 0; head < shape.heads; ++head)
      for (std::int64_t element = 0; element < shape.width; ++element)
        std::memcpy(in_cache(cache, layout, slot / shape.page, slot % shape.page, head, element),
                    at(rows, {token, head, element}), size_of(rows));
  }
}

void paged_gather_reference(const OpCall& call) {
  const TensorView &out = call.outputs[0], &cache = call.inputs[0], &table = call.inputs[1], &lengths = call.inputs[2];
  const PageLayout layout = page_layout("kv_gather_paged", call.attributes);
  const CacheShape shape = cache_shape(cache.shape, layout);
  for (std::int64_t request = 0; request < out.shape[0]; ++request) {
    for (std::int64_t token = 0; token < out.shape[2]; ++token) {
      std::int64_t block = -1;
      if (shape.page > 0 && token < index_at(lengths, {request}) && token / shape.page < table.shape[1])
        block = index_at(table, {request, token / shape.page});
      const bool is_there = block >= 0 && block < shape.num_blocks;
      for (std::int64_t head = 0; head < shape.heads; ++head)
        for (std::int64_t element = 0; element < shape.width; ++element) {
          std::byte* const to = at(out, {request, head, token, element});
          if (is_there)
            std::memcpy(to, in_cache(cache, layout, block, token % shape.page, head, element), size_of(out));
          else
            std::memset(to, 0, size_of(out));
        }
    }
  }
}

void append_reference(const OpCall& call) {
  const PageLayout layout = page_layout("kv_append", call.attributes);
  for (const std::size_t kind : {std::size_t{0}, std::size_t{1}})
    append_rows(call.inputs[kind], call.inputs[2 + kind], call.inputs[4], layout);
}

void append_layers_reference(const OpCall& call) {
  const PageLayout layout = page_layout("kv_append_layers", call.attributes);
  for (const std::size_t kind : {std::size_t{0}, std::size_t{1}}) {
    const TensorView &key = call.inputs[kind], &table = call.inputs[2 + kind];
    const std::int64_t page = call.attributes.get_int("page"), heads = key.shape[2], width = key.shape[3];
    Dims shape{call.attributes.get_int("num_blocks"), page, heads, width};
    if (layout == PageLayout::hnd) shape = {shape[0], heads, page, width};
    for (std::int64_t layer = 0; layer < key.shape[0]; ++layer) {
      TensorView rows = dense_view(at(key, {layer, 0, 0, 0}), key.dtype, {key.shape[1], heads, width});
      rows.strides = {key.strides[1], key.strides[2], key.strides[3]};
      const auto address = static_cast<std::uintptr_t>(index_at(table, {layer}));
      TensorView cache = dense_view(reinterpret_cast<void*>(address), key.dtype, shape);
      if (const std::int64_t stride = call.attributes.get_int("block_stride"); stride != 0) cache.strides[0] = stride;
      append_rows(rows, cache, call.inputs[4], layout);
    }
  }
}

void swap_reference(const OpCall& call) {
  const TensorView &dst = call.inputs[0], &src = call.inputs[1], &mapping = call.inputs[2];
  std::int64_t block_bytes = itemsize_bytes(dst.dtype);
  for (int axis = 1; axis < dst.ndim(); ++axis) block_bytes *= dst.shape[axis];
  if (block_bytes == 0) return;
  for (std::int64_t pair = 0; pair < mapping.shape[0]; ++pair) {
    const std::int64_t from = index_at(mapping, {pair, 0}), to = index_at(mapping, {pair, 1});
    if (from < 0 || from >= src.shape[0] || to < 0 || to >= dst.shape[0]) continue;
    std::memcpy(at(dst, {to}), at(src, {from}), static_cast<std::size_t>(block_bytes));
  }
}

}  // namespace kiln::kv_cache
