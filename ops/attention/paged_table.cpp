#include "ops/attention/paged_table.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/common/element.hpp"
#include "ops/common/random_shape.hpp"

namespace kiln::attention {
namespace {

std::int64_t entry_at(const TensorView& view, std::int64_t offset) {
  return common::load_at<std::int64_t>(view, offset);
}

std::int64_t stated_length(const PagedTable& table, std::int64_t request) {
  return entry_at(table.lengths, request * table.lengths.strides[0]);
}

}  // namespace

PagedTable::Entries PagedTable::entries(std::int64_t request) const {
  if (!starts.has_value()) return {request * table.strides[0], table.shape[1], table.strides[1]};
  const auto start_of = [&](std::int64_t number) {
    return std::clamp<std::int64_t>(entry_at(*starts, number * starts->strides[0]), 0, table.shape[0]);
  };
  const std::int64_t first = start_of(request);
  return {first * table.strides[0], std::max<std::int64_t>(start_of(request + 1) - first, 0), table.strides[0]};
}

std::int64_t PagedTable::length(std::int64_t request) const {
  const std::int64_t stated = stated_length(*this, request);
  if (!starts.has_value()) return std::clamp<std::int64_t>(stated, 0, most_tokens);
  const std::int64_t pages = num_blocks == 0 ? 0 : entries(request).count;
  return pages == 0 || stated < 0 ? 0 : (pages - 1) * page + std::min(stated, page);
}

std::vector<std::int64_t> PagedTable::blocks(std::int64_t request) const {
  const Entries own = entries(request);
  std::vector<std::int64_t> result;
  for (std::int64_t entry = 0; entry * page < length(request); ++entry)
    result.push_back(std::clamp<std::int64_t>(entry_at(table, own.first + entry * own.stride), 0, num_blocks - 1));
  return result;
}

GatheredTokens::GatheredTokens(const TensorView& cache, kv_cache::PageLayout layout, const PagedTable& table,
                               std::int64_t request) {
  const kv_cache::CacheShape shape = kv_cache::cache_shape(cache.shape, layout);
  const std::vector<std::int64_t> blocks = table.blocks(request);
  const std::int64_t length = table.length(request);
  const bool nhd = layout == kv_cache::PageLayout::nhd;
  const auto size = static_cast<std::size_t>(itemsize_bytes(cache.dtype));
  bytes.resize(static_cast<std::size_t>(length * shape.heads * shape.width) * size + 1);  // has an address
  std::byte* to = bytes.data();
  for (std::int64_t token = 0; token < length; ++token)
    for (std::int64_t head = 0; head < shape.heads; ++head)
      for (std::int64_t i = 0; i < shape.width; ++i, to += size)
        std::memcpy(to,
                    common::address_at(cache, blocks[static_cast<std::size_t>(token / shape.page)] * cache.strides[0] +
                                                  token % shape.page * cache.strides[nhd ? 1 : 2] +
                                                  head * cache.strides[nhd ? 2 : 1] + i * cache.strides[3]),
                    size);
  view = dense_view(bytes.data(), cache.dtype, {1, length, shape.heads, shape.width});
}

TensorView request_of(const TensorView& view, std::int64_t request) {
  TensorView slice = view;
  slice.data = common::address_at(view, request * view.strides[0]);
  slice.shape[0] = 1;
  return slice;
}

void spoil_table(const PagedTable& table, bool checks_bounds, std::mt19937_64& random) {
  const TensorView &entries = table.table, &lengths = table.lengths;
  const auto put = [](const TensorView& view, std::int64_t offset, std::int64_t value) {
    common::store_at<std::int64_t>(view, offset, value);
  };
  for (std::int64_t request = 0; request < table.batch && !checks_bounds; ++request) {
    const std::int64_t at = request * lengths.strides[0];
    if (random() % 6 == 0) put(lengths, at, table.most_tokens + 3);
    if (random() % 20 == 0) put(lengths, at, -2);
  }
  // Entries that share memory are used by one request and not by another.
  bool shared = false;
  for (int axis = 0; axis < entries.ndim(); ++axis)
    shared = shared || (entries.shape[axis] > 1 && entries.strides[axis] == 0);
  for (std::int64_t request = 0; request < table.batch; ++request) {
    const std::int64_t length = table.length(request);
    const PagedTable::Entries own = table.entries(request);
    for (std::int64_t entry = 0; entry < own.count; ++entry) {
      const bool is_used = shared || entry * table.page < length;
      const std::int64_t at = own.first + entry * own.stride;
      if (is_used && !checks_bounds && random() % 20 == 0)
        put(entries, at,
            random() % 2 == 0 ? -1 - common::random_up_to(9, random)
                              : table.num_blocks + common::random_up_to(100, random));
      if (!is_used && random() % 2 == 0)
        put(entries, at, std::numeric_limits<std::int32_t>::max() - common::random_up_to(5, random));
    }
  }
}

SkippedWork skipped_tokens(const PagedTable& table) {
  const std::int64_t room = table.starts.has_value() ? table.most_tokens : table.batch * table.most_tokens;
  SkippedWork work{room, room, "tokens that 'block_table' has room for"};
  for (std::int64_t request = 0; request < table.batch; ++request) {
    const std::int64_t length = table.length(request);
    const PagedTable::Entries own = table.entries(request);
    for (std::int64_t entry = 0; entry * table.page < length; ++entry) {
      const std::int64_t block = entry_at(table.table, own.first + entry * own.stride);
      if (block >= 0 && block < table.num_blocks) work.skipped -= std::min(table.page, length - entry * table.page);
    }
  }
  work.skipped = std::max<std::int64_t>(work.skipped, 0);
  return work;
}

}  // namespace kiln::attention
