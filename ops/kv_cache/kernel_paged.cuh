#pragma once

#include "compiler/tl/traits.hpp"
#include "ops/common/kernel_place.hpp"
#include "ops/kv_cache/iteration_paged.hpp"

// Rows between paged caches and dense tensors in packets of up to 16 bytes, each thread with IN_FLIGHT of them. Rows
// are dense; bases, strides and widths are in bytes. What a thread moves follows from its packet's number alone, and
// the divisions that takes are by constants, so rows, pages and heads of any size fill whole warps. The alternative, a
// tile of one page's rows for each program, leaves small pages with programs that move a few hundred bytes.

namespace kiln::ops {

/// Packets that a program moves at once.
template <int IN_FLIGHT>
inline constexpr unsigned kBatch = static_cast<unsigned>(tl::kNumThreads * IN_FLIGHT);

template <typename Packet>
KILN_DEVICE bool is_misaligned(const void* address) {
  return (reinterpret_cast<tl::uint64_t>(address) & (sizeof(Packet) - 1)) != 0;
}

/// The row of a slot in the cache.
template <int PAGE>
KILN_DEVICE tl::int64_t slot_offset(const PagedCache& cache, unsigned slot) {
  return slot / PAGE * cache.block_stride + slot % PAGE * cache.place_stride;
}

/// Packets [first, end) of one head's tokens of one request.
template <typename Packet, int ROW_BYTES, int PAGE, int IN_FLIGHT, typename TableT>
KILN_DEVICE void gather_packets(char* out, const char* cache, const TableT* table, unsigned length, unsigned first,
                                unsigned end, const PagedGatherIteration& it) {
  constexpr unsigned kPackets = ROW_BYTES / sizeof(Packet);
  KILN_NO_UNROLL for (unsigned start = first + threadIdx.x; start < end; start += kBatch<IN_FLIGHT>) {
    tl::int64_t blocks[IN_FLIGHT];
    Packet packets[IN_FLIGHT];
    KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) {
      const unsigned token = (start + i * tl::kNumThreads) / kPackets;
      // What lies behind the sequence in the table may be anything.
      blocks[i] = -1;
      if (token < length) blocks[i] = table[token / PAGE * it.table_strides[1]];
    }
    KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) {
      const unsigned packet = start + i * tl::kNumThreads, token = packet / kPackets;
      packets[i] = {};
      if (static_cast<tl::uint64_t>(blocks[i]) < static_cast<tl::uint64_t>(it.cache.num_blocks))
        packets[i] = *reinterpret_cast<const Packet*>(cache + (blocks[i] * it.cache.block_stride +
                                                               token % PAGE * it.cache.place_stride +
                                                               packet % kPackets * sizeof(Packet)));
    }
    KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) {
      const unsigned packet = start + i * tl::kNumThreads;
      if (packet < end)
        *reinterpret_cast<Packet*>(out + (packet / kPackets * it.out_strides[2] + packet % kPackets * sizeof(Packet))) =
            packets[i];
    }
  }
}

/// See paged_gather_kernel. A program covers one batch of packets; Element is what all addresses are aligned to.
template <typename Packet, typename Element, typename TableT, typename LengthT, int ROW_BYTES, int PAGE, int IN_FLIGHT>
KILN_KERNEL void paged_gather_packets_kernel(char* out, const char* cache, const TableT* table, const LengthT* lengths,
                                             PagedGatherIteration it) {
  tl::wait_for_previous();
  unsigned rest = blockIdx.x;
  const tl::int64_t head = take_coordinate(rest, it.heads);
  const unsigned first = static_cast<unsigned>(take_coordinate(rest, it.parts)) * kBatch<IN_FLIGHT>;
  const tl::int64_t request = rest;
  const tl::int64_t given = lengths[request * it.length_stride];
  const auto length = static_cast<unsigned>(given < 0 ? 0 : given < it.readable_tokens ? given : it.readable_tokens);
  out += request * it.out_strides[0] + head * it.out_strides[1];
  cache += head * it.cache.head_stride;
  table += request * it.table_strides[0];
  const unsigned packets = static_cast<unsigned>(it.tokens) * (ROW_BYTES / static_cast<int>(sizeof(Packet)));
  const unsigned behind = first + kBatch<IN_FLIGHT>;
  const unsigned end = behind < packets ? behind : packets;
  if (is_misaligned<Packet>(out) || is_misaligned<Packet>(cache)) {
    constexpr unsigned kElements = sizeof(Packet) / sizeof(Element);
    gather_packets<Element, ROW_BYTES, PAGE, IN_FLIGHT>(out, cache, table, length, first * kElements, end * kElements,
                                                        it);
    return;
  }
  gather_packets<Packet, ROW_BYTES, PAGE, IN_FLIGHT>(out, cache, table, length, first, end, it);
}

/// Packets [first, end) of one layer's new keys or values.
template <typename Packet, int ROW_BYTES, int HEADS, int PAGE, int IN_FLIGHT, typename SlotT>
KILN_DEVICE void append_packets(char* cache, const char* rows, const SlotT* slots, unsigned first, unsigned end,
                                const PagedCache& layout, tl::int64_t token_stride, tl::int64_t head_stride,
                                tl::int64_t slot_stride) {
  constexpr unsigned kPackets = ROW_BYTES / sizeof(Packet);
  const auto num_slots = static_cast<tl::uint64_t>(layout.num_blocks * PAGE);
  KILN_NO_UNROLL for (unsigned start = first + threadIdx.x; start < end; start += kBatch<IN_FLIGHT>) {
    tl::int64_t taken[IN_FLIGHT];
    Packet packets[IN_FLIGHT];
    // A row that is skipped is read all the same: it is there, and its slot need not be known first.
    KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) {
      const unsigned packet = start + i * tl::kNumThreads, row = packet / kPackets;
      if (packet >= end) continue;
      taken[i] = slots[row / HEADS * slot_stride];
      packets[i] = *reinterpret_cast<const Packet*>(
          rows + (row / HEADS * token_stride + row % HEADS * head_stride + packet % kPackets * sizeof(Packet)));
    }
    KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) {
      const unsigned packet = start + i * tl::kNumThreads, row = packet / kPackets;
      if (packet >= end || static_cast<tl::uint64_t>(taken[i]) >= num_slots) continue;
      *reinterpret_cast<Packet*>(cache + (slot_offset<PAGE>(layout, static_cast<unsigned>(taken[i])) +
                                          row % HEADS * layout.head_stride + packet % kPackets * sizeof(Packet))) =
          packets[i];
    }
  }
}

/// See paged_append_kernel. A program covers one batch of packets.
template <typename Packet, typename Element, typename SlotT, int ROW_BYTES, int HEADS, int PAGE, int IN_FLIGHT,
          bool TABLE>
KILN_KERNEL void paged_append_packets_kernel(const char* key, const char* value,
                                             tl::conditional_t<TABLE, const tl::int64_t, char>* key_cache,
                                             tl::conditional_t<TABLE, const tl::int64_t, char>* value_cache,
                                             const SlotT* slots, PagedAppendIteration it) {
  tl::wait_for_previous();
  unsigned rest = blockIdx.x;
  const unsigned first = static_cast<unsigned>(take_coordinate(rest, it.parts)) * kBatch<IN_FLIGHT>;
  const tl::int64_t layer = rest / 2;
  const unsigned kind = rest % 2;
  const char* const rows = (kind == 0 ? key : value) + layer * it.strides[kind][0];
  char* cache;
  if constexpr (TABLE)
    cache = reinterpret_cast<char*>((kind == 0 ? key_cache : value_cache)[layer * it.table_strides[kind]]);
  else
    cache = kind == 0 ? key_cache : value_cache;
  const unsigned packets = static_cast<unsigned>(it.tokens) * (HEADS * (ROW_BYTES / static_cast<int>(sizeof(Packet))));
  const unsigned behind = first + kBatch<IN_FLIGHT>;
  const unsigned end = behind < packets ? behind : packets;
  if (is_misaligned<Packet>(rows) || is_misaligned<Packet>(cache)) {
    constexpr unsigned kElements = sizeof(Packet) / sizeof(Element);
    append_packets<Element, ROW_BYTES, HEADS, PAGE, IN_FLIGHT>(cache, rows, slots, first * kElements, end * kElements,
                                                               it.caches[kind], it.strides[kind][1],
                                                               it.strides[kind][2], it.slot_stride);
    return;
  }
  append_packets<Packet, ROW_BYTES, HEADS, PAGE, IN_FLIGHT>(cache, rows, slots, first, end, it.caches[kind],
                                                            it.strides[kind][1], it.strides[kind][2], it.slot_stride);
}

/// `count` packets from one block to another, the program's share.
template <typename Packet, int IN_FLIGHT>
KILN_DEVICE void swap_packets(char* to, const char* from, tl::int64_t bytes) {
  const tl::int64_t count = bytes / static_cast<int>(sizeof(Packet));
  KILN_NO_UNROLL for (tl::int64_t start = static_cast<tl::int64_t>(blockIdx.x) * kBatch<IN_FLIGHT> + threadIdx.x;
                      start < count; start += static_cast<tl::int64_t>(gridDim.x) * kBatch<IN_FLIGHT>) {
    Packet packets[IN_FLIGHT];
    KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) {
      const tl::int64_t packet = start + i * tl::kNumThreads;
      if (packet < count) packets[i] = reinterpret_cast<const Packet*>(from)[packet];
    }
    KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) {
      const tl::int64_t packet = start + i * tl::kNumThreads;
      if (packet < count) reinterpret_cast<Packet*>(to)[packet] = packets[i];
    }
  }
}

/// See swap_blocks_kernel. The programs of axis 0 share the pairs' bytes, those of axis 1 the pairs.
template <typename Packet, typename Element, typename IndexT, int IN_FLIGHT>
KILN_KERNEL void swap_blocks_packets_kernel(char* dst, const char* src, const IndexT* mapping, SwapIteration it) {
  tl::wait_for_previous();
  KILN_NO_UNROLL for (tl::int64_t pair = blockIdx.y; pair < it.pairs; pair += gridDim.y) {
    const tl::int64_t from = mapping[pair * it.pair_stride], to = mapping[pair * it.pair_stride + it.side_stride];
    if (from < 0 || from >= it.num_blocks[0] || to < 0 || to >= it.num_blocks[1]) continue;
    char* const target = dst + to * it.block_strides[1];
    const char* const source = src + from * it.block_strides[0];
    if (is_misaligned<Packet>(dst) || is_misaligned<Packet>(src))
      swap_packets<Element, IN_FLIGHT>(target, source, it.width);
    else
      swap_packets<Packet, IN_FLIGHT>(target, source, it.width);
  }
}

}  // namespace kiln::ops
