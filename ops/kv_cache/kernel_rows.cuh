#pragma once

#include "compiler/tl/cuda/conditional_access.hpp"
#include "ops/kv_cache/kernel_rows_pair.hpp"

// Rows over the bus. What limits them is how many requests of a line of 128 bytes are on their way, so few warps keep
// many: the lanes of a warp form groups that each cover a line exactly, wherever the row starts in it, every lane asks
// for all packets of its row before it waits for the first, and pairs are read one batch ahead. A warp to a row, the
// alternative, has most lanes idle in the second of two requests of a row of 656 bytes, and needs four times the warps
// for the same speed. cp.async.bulk of whole rows reaches half of it.

namespace kiln::ops {

/// `packet` becomes the 16 bytes at `address` where `wanted`. Instructions that are neither moved nor dropped, so that
/// all loads of a batch are issued before its first store.
template <bool NO_ALLOCATE>
KILN_DEVICE void load_packet(uint4& packet, const unsigned char* address, bool wanted) {
#define KILN_LOAD_PACKET(hint)                                                                             \
  asm volatile("{.reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global" hint ".v4.u32 {%0, %1, %2, %3}, [%4];}" \
               : "=r"(packet.x), "=r"(packet.y), "=r"(packet.z), "=r"(packet.w)                            \
               : "l"(address), "r"(wanted ? 1 : 0)                                                         \
               : "memory")
  if constexpr (NO_ALLOCATE)
    KILN_LOAD_PACKET(".L1::no_allocate");
  else
    KILN_LOAD_PACKET("");
#undef KILN_LOAD_PACKET
}
template <bool NO_ALLOCATE, typename Packet>
KILN_DEVICE void load_packet(Packet& packet, const unsigned char* address, bool wanted) {
  packet = tl::load_if(wanted, reinterpret_cast<const Packet*>(address), Packet{0});
}

KILN_DEVICE void store_packet(const uint4& packet, unsigned char* address, bool wanted) {
  asm volatile("{.reg .pred p; setp.ne.u32 p, %5, 0; @p st.global.v4.u32 [%4], {%0, %1, %2, %3};}"
               :
               : "r"(packet.x), "r"(packet.y), "r"(packet.z), "r"(packet.w), "l"(address), "r"(wanted ? 1 : 0)
               : "memory");
}
template <typename Packet>
KILN_DEVICE void store_packet(const Packet& packet, unsigned char* address, bool wanted) {
  tl::store_if(wanted, reinterpret_cast<Packet*>(address), packet);
}

template <int kBytes>
struct RowPacket;
template <>
struct RowPacket<16> {
  using type = uint4;
};
template <>
struct RowPacket<4> {
  using type = tl::uint32_t;
};
template <>
struct RowPacket<1> {
  using type = tl::uint8_t;
};

/// Pairs as the caller lists them; warps take batches in turn.
template <typename Index, typename Count>
struct ListedRows {
  const Index* indices;
  const Count* counts;
  const RowsIteration& it;

  KILN_DEVICE unsigned size() const { return static_cast<unsigned>(it.pairs); }
  KILN_DEVICE RowPair<int> at(unsigned number) const {
    const auto topk = static_cast<unsigned>(it.topk);
    return listed_pair<int>(indices, counts, number / topk, number % topk, it);
  }
  KILN_DEVICE unsigned first_batch() const { return threadIdx.x / 32 * gridDim.x + blockIdx.x; }
  KILN_DEVICE unsigned next_batch(unsigned batch) const { return batch + gridDim.x * tl::kNumWarps; }
};

/// Pairs that place_rows_kernel left. Warps draw batches: what is on its way then is always a short piece of the list,
/// and so of memory. With batches in turn warps drift apart, and a pool of 24 GiB is read a tenth slower.
struct SortedRows {
  const int2* pairs;
  unsigned* counters;

  KILN_DEVICE unsigned size() const { return counters[kRowTotal]; }
  KILN_DEVICE RowPair<int> at(unsigned number) const { return {pairs[number].x, pairs[number].y}; }
  KILN_DEVICE unsigned first_batch() const { return next_batch(0); }
  KILN_DEVICE unsigned next_batch(unsigned) const {
    unsigned ticket = 0;
    if (threadIdx.x % 32 == 0) ticket = atomicAdd(counters + kRowTickets, 1u);
    return __shfl_sync(~0u, ticket, 0);
  }
};

/// A row's packets in one group of lanes, LANES lanes wide where packets have 16 bytes and wider where they are
/// smaller; ROWS rows for each group in a batch, PACKETS packets of each on their way at a time. Rows are shorter than
/// 2^29 bytes.
template <int WIDTH, int LANES, int ROWS, int PACKETS, RowAlignment ALIGNMENT, bool NO_ALLOCATE, typename Pairs,
          typename Slot>
KILN_DEVICE void copy_rows(unsigned char* dst, const unsigned char* src, const Pairs& pairs, Slot* slot_map,
                           const RowsIteration& it) {
  using Packet = typename RowPacket<WIDTH>::type;
  constexpr int kLanes = LANES * 16 / WIDTH < 32 ? LANES * 16 / WIDTH : 32;
  constexpr int kGroups = 32 / kLanes, kStep = kLanes * WIDTH;
  constexpr unsigned kBatch = kGroups * ROWS;
  // Bytes by which a row's first packet may stand behind the start of a group's line.
  constexpr int kLine = kStep < 128 ? kStep : 128;
  constexpr int kSlack = ALIGNMENT == RowAlignment::none ? 0 : kLine - WIDTH;
  constexpr int kNowhere = 1 << 30;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const unsigned group = threadIdx.x % 32 / kLanes, size = pairs.size();
  const auto row_bytes = static_cast<unsigned>(it.row_bytes);

  RowPair<int> next[ROWS];
  const auto fetch = [&](unsigned batch) {
    KILN_UNROLL for (int r = 0; r < ROWS; ++r) {
      const unsigned number = batch * kBatch + r * kGroups + group;
      next[r] = {-1, -1};
      if (number < size) next[r] = pairs.at(number);
    }
  };
  unsigned batch = pairs.first_batch();
  fetch(batch);
  KILN_NO_UNROLL while (batch * kBatch < size) {
    const unsigned char* from[ROWS];
    unsigned char* to[ROWS];
    int first[ROWS];
    KILN_UNROLL for (int r = 0; r < ROWS; ++r) {
      from[r] = src + next[r].src * it.src_stride;
      to[r] = dst + next[r].dst * it.dst_stride;
      const auto aligned = reinterpret_cast<tl::uint64_t>(ALIGNMENT == RowAlignment::dst ? to[r] : from[r]);
      first[r] = lane * WIDTH - static_cast<int>(aligned & kSlack);
      if (next[r].src < 0)
        first[r] = kNowhere;
      else if (slot_map != nullptr && lane == 0)
        slot_map[next[r].src * it.slot_stride] = static_cast<Slot>(next[r].dst);
    }
    batch = pairs.next_batch(batch);
    fetch(batch);
    KILN_NO_UNROLL for (int start = 0; start < static_cast<int>(row_bytes) + kSlack; start += PACKETS * kStep) {
      Packet packets[ROWS][PACKETS];
      const auto at = [&](int r, int p) { return first[r] + start + p * kStep; };
      const auto is_inside = [&](int r, int p) { return static_cast<unsigned>(at(r, p)) < row_bytes; };
      KILN_UNROLL for (int r = 0; r < ROWS; ++r) KILN_UNROLL for (int p = 0; p < PACKETS; ++p)
          load_packet<NO_ALLOCATE>(packets[r][p], from[r] + at(r, p), is_inside(r, p));
      KILN_UNROLL for (int r = 0; r < ROWS; ++r) KILN_UNROLL for (int p = 0; p < PACKETS; ++p)
          store_packet(packets[r][p], to[r] + at(r, p), is_inside(r, p));
    }
  }
}

/// WIDTH 16: both tensors start at multiples of 16 bytes, and strides and rows are multiples of it. WIDTH 4: strides
/// and rows are multiples of 4. WIDTH 1: anything.
template <int WIDTH, int LANES, int ROWS, int PACKETS, int ALIGNMENT, bool NO_ALLOCATE, typename Pairs, typename Slot>
KILN_DEVICE void copy_rows_of_any_address(unsigned char* dst, const unsigned char* src, const Pairs& pairs,
                                          Slot* slot_map, const RowsIteration& it) {
  constexpr auto kAlignment = static_cast<RowAlignment>(ALIGNMENT);
  const auto run = [&](auto packet) {
    copy_rows<sizeof(packet), LANES, ROWS, PACKETS, kAlignment, NO_ALLOCATE>(dst, src, pairs, slot_map, it);
  };
  if constexpr (WIDTH == 4) {
    if (((reinterpret_cast<tl::uint64_t>(dst) | reinterpret_cast<tl::uint64_t>(src)) & 3) == 0)
      run(tl::uint32_t{});
    else
      run(tl::uint8_t{});
  } else {
    run(typename RowPacket<WIDTH>::type{});
  }
}

template <typename Index, typename Count, typename Slot, int WIDTH, int LANES, int ROWS, int PACKETS, int ALIGNMENT,
          bool NO_ALLOCATE>
KILN_KERNEL void copy_listed_rows_kernel(unsigned char* dst, const unsigned char* src, const Index* indices,
                                         const Count* counts, Slot* slot_map, RowsIteration it) {
  tl::wait_for_previous();
  copy_rows_of_any_address<WIDTH, LANES, ROWS, PACKETS, ALIGNMENT, NO_ALLOCATE>(
      dst, src, ListedRows<Index, Count>{indices, counts, it}, slot_map, it);
}

template <typename Slot, int WIDTH, int LANES, int ROWS, int PACKETS, int ALIGNMENT, bool NO_ALLOCATE>
KILN_KERNEL void copy_sorted_rows_kernel(unsigned char* dst, const unsigned char* src, const int2* sorted,
                                         unsigned* counters, Slot* slot_map, RowsIteration it) {
  tl::wait_for_previous();
  copy_rows_of_any_address<WIDTH, LANES, ROWS, PACKETS, ALIGNMENT, NO_ALLOCATE>(dst, src, SortedRows{sorted, counters},
                                                                                slot_map, it);
}

// Sorting into buckets, a launch for each step. A pool's pages are what shall be near one another, so rows of a bucket
// stay in any order; buckets of 1 to 11 MiB were equally fast, and sorting fully no faster.

template <int COUNTERS>
KILN_KERNEL void clear_row_counters_kernel(unsigned* counters) {
  tl::wait_for_previous();
  KILN_NO_UNROLL for (int i = static_cast<int>(threadIdx.x); i < COUNTERS; i += tl::kNumThreads) counters[i] = 0;
}

/// body(pair, bucket) for the pair of this thread, if it names a row.
template <typename Index, typename Count, typename Body>
KILN_DEVICE void for_own_pair(const Index* indices, const Count* counts, const RowsIteration& it,
                              const RowsOrder& order, Body body) {
  const tl::int64_t number = tl::program_id(0) * tl::kNumThreads + threadIdx.x;
  if (number >= it.pairs) return;
  const auto topk = static_cast<unsigned>(it.topk), i = static_cast<unsigned>(number);
  const RowPair<int> pair = listed_pair<int>(indices, counts, i / topk, i % topk, it);
  if (pair.src >= 0) body(pair, static_cast<int>((order.by_dst ? pair.dst : pair.src) >> order.shift));
}

template <typename Index, typename Count>
KILN_KERNEL void count_rows_kernel(unsigned* counters, const Index* indices, const Count* counts, RowsIteration it,
                                   RowsOrder order) {
  for_own_pair(indices, counts, it, order, [&](const RowPair<int>&, int bucket) { atomicAdd(counters + bucket, 1u); });
}

/// Counters become the places where buckets start. One program of 32 warps.
template <int BUCKETS>
KILN_KERNEL void scan_row_counters_kernel(unsigned* counters) {
  tl::wait_for_previous();
  constexpr int kShare = BUCKETS / tl::kNumThreads;
  static_assert(kShare * 1024 == BUCKETS && tl::kNumWarps == 32, "a warp scans the sums of 32");
  __shared__ unsigned warp_ends[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto scan_warp = [&](unsigned value) {
    KILN_UNROLL for (unsigned distance = 1; distance < 32; distance *= 2) {
      const unsigned before = __shfl_up_sync(~0u, value, distance);
      if (lane >= distance) value += before;
    }
    return value;
  };
  unsigned own[kShare], sum = 0;
  KILN_UNROLL for (int i = 0; i < kShare; ++i) {
    own[i] = counters[threadIdx.x * kShare + i];
    sum += own[i];
  }
  const unsigned end = scan_warp(sum);
  if (lane == 31) warp_ends[warp] = end;
  __syncthreads();
  if (warp == 0) warp_ends[lane] = scan_warp(warp_ends[lane]);
  __syncthreads();
  unsigned start = end - sum + (warp > 0 ? warp_ends[warp - 1] : 0);
  KILN_UNROLL for (int i = 0; i < kShare; ++i) {
    counters[threadIdx.x * kShare + i] = start;
    start += own[i];
  }
  if (threadIdx.x == tl::kNumThreads - 1) counters[kRowTotal] = start;
}

template <typename Index, typename Count>
KILN_KERNEL void place_rows_kernel(int2* sorted, unsigned* counters, const Index* indices, const Count* counts,
                                   RowsIteration it, RowsOrder order) {
  for_own_pair(indices, counts, it, order, [&](const RowPair<int>& pair, int bucket) {
    sorted[atomicAdd(counters + bucket, 1u)] = make_int2(pair.src, pair.dst);
  });
}

}  // namespace kiln::ops
