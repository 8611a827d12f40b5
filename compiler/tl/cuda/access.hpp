#pragma once

#include "compiler/tl/cuda/conditional_access.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/straddled.hpp"
#include "compiler/tl/mask.hpp"

namespace kiln::tl {

/// kBytes moved by one instruction. CUDA's vector types rather than an aligned struct of elements, which the optimiser
/// takes apart when a slow path beside it accesses the same elements one by one.
template <int kBytes>
struct PacketOf;
template <>
struct PacketOf<1> {
  using type = unsigned char;
};
template <>
struct PacketOf<2> {
  using type = unsigned short;
};
template <>
struct PacketOf<4> {
  using type = unsigned int;
};
template <>
struct PacketOf<8> {
  using type = uint2;
};
template <>
struct PacketOf<16> {
  using type = uint4;
};

/// What a thread holds of a tile with contiguous columns, as packets of at most 16 bytes.
template <typename T, typename S, AffineTile A>
struct Packing {
  using L = Blocked<S>;
  static constexpr int kElements = smaller(L::kVector, 16 / static_cast<int>(sizeof(T)));
  static constexpr int kBytes = kElements * static_cast<int>(sizeof(T));
  static constexpr int kCount = L::kRegisters / kElements;
  static constexpr bool kPossible = is_same<typename A::column_stride_type, Constant<1>> && kElements > 1;
  // The optimiser splits a uint4 made of two 64-bit elements into two stores.
  using packet = conditional_t<sizeof(T) == 8 && kBytes == 16, ulonglong2, typename PacketOf<kBytes>::type>;

  packet packets[kCount];

  template <typename U>
  using packet_of = conditional_t<is_same<U, T>, packet, const packet>;

  /// Where packet i is when element (row, column) is at first + row * pitch + column.
  template <typename U>
  KILN_DEVICE static auto address(U* first, int64_t pitch, int i) {
    return reinterpret_cast<packet_of<U>*>(first + (L::row(i * kElements) * pitch + L::column(i * kElements)));
  }
  /// The same of a tile of one row. What the thread adds is bytes without a sign, which is one instruction for each
  /// half of an address; what the packet adds is part of the access. (In kernels with more in hand it costs registers.)
  template <typename U>
  KILN_DEVICE static auto row_address(U* first, int i) {
    static_assert(S::kRows == 1, "DirectAccess is for tiles of one row");
    const int column = L::column(0);
    U* const run = first + (L::column(i * kElements) - column);
    using Byte = conditional_t<is_same<U, T>, char, const char>;
    return reinterpret_cast<packet_of<U>*>(reinterpret_cast<Byte*>(run) +
                                           static_cast<uint32_t>(column * static_cast<int>(sizeof(T))));
  }
  KILN_DEVICE void from(const T* registers) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) memcpy(&packets[i], &registers[i * kElements], kBytes);
  }
  KILN_DEVICE void to(T* registers) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) memcpy(&registers[i * kElements], &packets[i], kBytes);
  }

  KILN_DEVICE void load_row(const T* first) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) packets[i] = *row_address(first, i);
  }
  KILN_DEVICE void store_row(T* first) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) * row_address(first, i) = packets[i];
  }
  /// The packets that `mask` wants; what is not wanted is 0.
  KILN_DEVICE void load_row(const T* first, const PacketMask<S>& mask) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) packets[i] =
        load_packet_if(mask.at(0, L::column(i * kElements), 0), row_address(first, i), packet{});
  }
  KILN_DEVICE void store_row(T* first, const PacketMask<S>& mask) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i)
        store_packet_if(mask.at(0, L::column(i * kElements), 0), row_address(first, i), packets[i]);
  }

  /// Whether every packet starts at a multiple of its size: one test per tile, the same in all threads.
  KILN_DEVICE static bool aligned(const T* first, const A& offsets) {
    const uint64_t row_bytes =
        S::kRows == 1 ? 0 : static_cast<uint64_t>(static_cast<int64_t>(offsets.row_stride)) * sizeof(T);
    return ((reinterpret_cast<uint64_t>(first) | row_bytes) & (kBytes - 1)) == 0;
  }
};

/// The bits of an address that must be 0 for the packets of a tile of kN elements.
template <int kN, typename T>
KILN_DEVICE uint64_t misaligned_bits(T* address) {
  using P = Packing<T, Shape<kN>, decltype(arange<kN>())>;
  return reinterpret_cast<uint64_t>(address) & (P::kBytes - 1);
}

/// `value`, of which the optimiser knows nothing else.
KILN_DEVICE int64_t opaque(int64_t value) {
  asm volatile("" : "+l"(value));
  return value;
}

template <AffineTile A>
KILN_DEVICE int64_t offset_of(const A& offsets, int row, int column) {
  return row * static_cast<int64_t>(offsets.row_stride) + column * static_cast<int64_t>(offsets.column_stride);
}

// An aligned tile moves in packets between registers and memory, each under a condition of its own, and what the mask
// cuts a packet into element by element, behind a branch that only the threads at the mask's edges take. So the code
// that usually runs is one straight piece (jumps into instruction cache that is still cold cost a kernel of a few
// microseconds several percent). Tiles that are not aligned go by way of functions that are not inlined: loads put each
// packet together out of the two that it straddles, stores pass through shared memory, so that whole sectors are
// written. Passing what is masked through shared memory too was the alternative: rows of 1001 elements in a tile of
// 1024 took a third longer than element by element.

/// The calling thread's part of an affine tile in global memory, counted from its first element: where the others are
/// and whether they are wanted is then known to the compiler but for one address and one number for each bound.
template <typename U, typename S, AffineTile A, typename M>
struct ThreadPart {
  using L = Blocked<S>;
  U* first;
  A offsets;
  M mask;

  KILN_DEVICE ThreadPart(U* tile, const A& offsets, const M& tile_mask)
      : first(tile + offset_of(offsets, L::row(0), L::column(0))),
        offsets(offsets),
        mask(tile_mask.moved(L::row(0), L::column(0))) {}

  KILN_DEVICE U* address(int r) const { return first + offset_of(offsets, L::row_step(r), L::column_step(r)); }
  KILN_DEVICE bool wants(int r) const { return mask.at(L::row_step(r), L::column_step(r), r); }
  /// Whether registers r to r + kElements - 1, which lie in one row, are all wanted.
  template <int kElements>
  KILN_DEVICE bool wants_all(int r) const {
    return wants(r) && wants(r + kElements - 1);
  }
  /// The same of these, `before` elements before them and `after` behind them, in one row: where the mask does not
  /// bound it, of the tile's columns alone.
  template <int kElements>
  KILN_DEVICE bool wants_around(int r, int before, int after) const {
    const int row = L::row_step(r), column = L::column_step(r), last = column + kElements - 1;
    return (kBoundsColumns<M, -1> || L::column(r) >= before) &&
           (kBoundsColumns<M, 1> || L::column(r) + kElements + after <= S::kColumns) &&
           mask.at(row, column - before, r) && mask.at(row, last + after, r);
  }
  /// False only where none of them is.
  template <int kElements>
  KILN_DEVICE bool may_want(int r) const {
    return mask.touches(L::row_step(r), L::column_step(r), L::column_step(r) + kElements - 1);
  }
  /// Whether some of them may be wanted, and not all.
  template <int kElements>
  KILN_DEVICE bool cuts(int r) const {
    return !wants_all<kElements>(r) && may_want<kElements>(r);
  }
};

/// A tile passes through shared memory in pieces of whole runs.
template <typename T, typename S>
struct Staging {
  using L = Blocked<S>;
  static constexpr int kRunBytes = L::kPitch * static_cast<int>(sizeof(T));
  static constexpr int kRuns = smaller(L::kRuns, larger(1, kMostScratchBytes / kRunBytes));
  static constexpr int kRegisters = kRuns * L::kVector;
  static constexpr int kPieces = L::kRegisters / kRegisters;
  static constexpr int kElements = smaller(kRuns * L::kPitch, S::kNumel);
  static constexpr int kBatch = smaller(4, kRegisters);

  /// The same memory for all tiles whose pieces have this size.
  KILN_DEVICE static T* memory() {
    return reinterpret_cast<T*>(shared_bytes<kElements* static_cast<int>(sizeof(T))>());
  }

  /// body(places in the piece, the piece's first element) for the calling thread's share, a few places at a time,
  /// neighbouring threads on neighbouring ones.
  template <typename F>
  KILN_DEVICE static void for_each_batch(int first_element, F body) {
    KILN_NO_UNROLL for (int start = 0; start < kRegisters; start += kBatch) {
      int places[kBatch];
      KILN_UNROLL for (int i = 0; i < kBatch; ++i) places[i] =
          ((start + i) * kNumThreads + static_cast<int>(threadIdx.x)) % kElements;
      body(places, first_element);
    }
  }
};

/// A packet of elements that are all the same.
template <typename P, Number T>
KILN_DEVICE typename P::packet filled_packet(T value) {
  T elements[P::kElements];
  KILN_UNROLL for (int e = 0; e < P::kElements; ++e) elements[e] = value;
  typename P::packet packet;
  memcpy(&packet, elements, P::kBytes);
  return packet;
}

/// A packet that the mask cuts, the first element of which is at (row, column).
template <typename P, typename M, Number T>
KILN_DEVICE typename P::packet load_elements(const T* address, const M& mask, int row, int column, T other) {
  T elements[P::kElements];
  KILN_UNROLL for (int e = 0; e < P::kElements; ++e) elements[e] =
      load_if(mask.at(row, column + e, e), address + e, other);
  typename P::packet packet;
  memcpy(&packet, elements, P::kBytes);
  return packet;
}
template <typename P, typename M, Number T>
__device__ __noinline__ typename P::packet load_cut(const T* address, M mask, int row, int column, T other) {
  return load_elements<P>(address, mask, row, column, other);
}
template <typename P, typename M, Number T>
__device__ __noinline__ void store_cut(T* address, M mask, int row, int column, typename P::packet packet) {
  T elements[P::kElements];
  memcpy(elements, &packet, P::kBytes);
  KILN_UNROLL for (int e = 0; e < P::kElements; ++e) store_if(mask.at(row, column + e, e), address + e, elements[e]);
}

template <Number T, typename S, AffineTile A, typename M>
KILN_DEVICE Packing<T, S, A> load_masked(const T* first, const A& offsets, const M& mask, T other) {
  using L = Blocked<S>;
  using P = Packing<T, S, A>;
  const ThreadPart<const T, S, A, M> part(first, offsets, mask);
  P result;
  if (is_uniform_mask<M> && mask.all()) {
    KILN_UNROLL for (int i = 0; i < P::kCount; ++i) result.packets[i] =
        *reinterpret_cast<const typename P::packet*>(part.address(i * P::kElements));
    return result;
  }
  KILN_UNROLL for (int i = 0; i < P::kCount; ++i) {
    const int r = i * P::kElements;
    result.packets[i] =
        load_packet_if(part.template wants_all<P::kElements>(r),
                       reinterpret_cast<const typename P::packet*>(part.address(r)), filled_packet<P>(other));
  }
  if (__builtin_expect(mask.all(), 1)) return result;
  KILN_UNROLL for (int i = 0; i < P::kCount; ++i) {
    const int r = i * P::kElements;
    if (part.template cuts<P::kElements>(r))
      result.packets[i] = load_cut<P>(part.address(r), part.mask, L::row_step(r), L::column_step(r), other);
  }
  return result;
}

/// Some packets of a thread.
template <typename P, int kCount>
struct PacketGroup {
  typename P::packet packets[kCount];
};

/// As many packets as a function returns in registers, of a tile that is not aligned: each put together out of the two
/// that it straddles, where the elements of both are the tile's.
template <int kFirst, int kCount, Number T, typename S, AffineTile A, typename M>
__device__ __noinline__ PacketGroup<Packing<T, S, A>, kCount> load_straddling(const T* first, A offsets, M mask,
                                                                              T other) {
  using L = Blocked<S>;
  using P = Packing<T, S, A>;
  const ThreadPart<const T, S, A, M> part(first, offsets, mask);
  PacketGroup<P, kCount> result;
  bool is_whole[kCount];
  KILN_UNROLL for (int i = 0; i < kCount; ++i) {
    is_whole[i] = false;
    result.packets[i] = filled_packet<P>(other);
    if constexpr (P::kBytes == 16) {
      const int r = (kFirst + i) * P::kElements;
      const unsigned char* const address = reinterpret_cast<const unsigned char*>(part.address(r));
      const int past = static_cast<int>(reinterpret_cast<uint64_t>(address)) & 15;
      const int before = past / static_cast<int>(sizeof(T)), after = past == 0 ? 0 : P::kElements - before;
      is_whole[i] = part.template wants_around<P::kElements>(r, before, after);
      const uint4* const chunks = reinterpret_cast<const uint4*>(address - past);
      const uint4 low = load_packet_if(is_whole[i], chunks, uint4{});
      const uint4 high = load_packet_if(is_whole[i] && past != 0, chunks + 1, uint4{});
      const uint4 packet = straddled<sizeof(T)>(low, high, past);
      if (is_whole[i]) memcpy(&result.packets[i], &packet, 16);
    }
  }
  KILN_UNROLL for (int i = 0; i < kCount; ++i) {
    const int r = (kFirst + i) * P::kElements;
    if (!is_whole[i] && part.template may_want<P::kElements>(r))
      result.packets[i] = load_elements<P>(part.address(r), part.mask, L::row_step(r), L::column_step(r), other);
  }
  return result;
}
template <int kFirst = 0, Number T, typename S, AffineTile A, typename M>
KILN_DEVICE void load_misaligned(Packing<T, S, A>& result, const T* first, const A& offsets, const M& mask, T other) {
  using P = Packing<T, S, A>;
  constexpr int kGroup = smaller(P::kCount - kFirst, larger(1, 64 / P::kBytes));
  const auto group = load_straddling<kFirst, kGroup, T, S>(first, offsets, mask, other);
  KILN_UNROLL for (int i = 0; i < kGroup; ++i) result.packets[kFirst + i] = group.packets[i];
  if constexpr (kFirst + kGroup < P::kCount) load_misaligned<kFirst + kGroup>(result, first, offsets, mask, other);
}

template <Number T, typename S, AffineTile A, typename M>
KILN_DEVICE void store_masked(T* first, const A& offsets, const M& mask, const Packing<T, S, A>& values) {
  using L = Blocked<S>;
  using P = Packing<T, S, A>;
  const ThreadPart<T, S, A, M> part(first, offsets, mask);
  if (is_uniform_mask<M> && mask.all()) {
    KILN_UNROLL for (int i = 0; i < P::kCount; ++i) *
        reinterpret_cast<typename P::packet*>(part.address(i * P::kElements)) = values.packets[i];
    return;
  }
  KILN_UNROLL for (int i = 0; i < P::kCount; ++i) {
    const int r = i * P::kElements;
    store_packet_if(part.template wants_all<P::kElements>(r), reinterpret_cast<typename P::packet*>(part.address(r)),
                    values.packets[i]);
  }
  if (__builtin_expect(mask.all(), 1)) return;
  KILN_UNROLL for (int i = 0; i < P::kCount; ++i) {
    const int r = i * P::kElements;
    if (part.template cuts<P::kElements>(r))
      store_cut<P>(part.address(r), part.mask, L::row_step(r), L::column_step(r), values.packets[i]);
  }
}

template <Number T, typename S, AffineTile A, typename M>
__device__ __noinline__ void store_staged(T* first, A offsets, M mask, Packing<T, S, A> values) {
  using G = Staging<T, S>;
  using P = Packing<T, S, A>;
  constexpr int kPackets = P::kCount / G::kPieces;
  T* const staged = G::memory();
  KILN_UNROLL for (int piece = 0; piece < G::kPieces; ++piece) {
    sync_threads();  // an earlier piece may still be read
    KILN_UNROLL for (int i = piece * kPackets; i < (piece + 1) * kPackets; ++i) *
        P::address(staged - piece * G::kElements, S::kColumns, i) = values.packets[i];
    sync_threads();
    G::for_each_batch(piece * G::kElements, [&](const int(&places)[G::kBatch], int from) {
      KILN_UNROLL for (int i = 0; i < G::kBatch; ++i) {
        const int row = (from + places[i]) / S::kColumns, column = (from + places[i]) % S::kColumns;
        store_if(mask.at(row, column, 0), first + offset_of(offsets, row, column), staged[places[i]]);
      }
    });
  }
}

template <Number T, typename S, AffineTile A, typename M>
KILN_DEVICE Tile<T, S> load_affine(const T* data, const A& offsets, const M& mask, T other) {
  using L = Blocked<S>;
  using P = Packing<T, S, A>;
  Tile<T, S> result;
  const T* const first = data + offsets.base;
  // Columns apart by a stride that is known only at run time are read one by one in any case; two forms of that, for
  // whole and for other tiles, take a tenth longer to compile.
  constexpr bool kColumnsKnown = is_constant<typename A::column_stride_type>;
  if constexpr (P::kPossible && !is_tile_mask<M>) {
    P values;
    if constexpr (is_direct_mask<M>)
      values.load_row(first);
    else if constexpr (is_packet_mask<M>)
      values.load_row(first, mask);
    else if (__builtin_expect(P::aligned(first, offsets), 1))
      values = load_masked<T, S>(first, offsets, mask, other);
    else
      load_misaligned(values, first, offsets, mask, other);
    values.to(result.registers);
  } else if (kColumnsKnown && __builtin_expect(mask.all(), 1)) {
    // Without a condition, loads of one address become one.
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) result.registers[r] =
        first[offset_of(offsets, L::row(r), L::column(r))];
  } else {
    const ThreadPart<const T, S, A, M> part(first, offsets, mask);
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) result.registers[r] =
        load_if(part.wants(r), part.address(r), other);
  }
  return result;
}

template <Number T, typename S, AffineTile A, typename L, typename M>
KILN_DEVICE void store_affine(T* data, const A& offsets, const Tile<T, S, L>& values, const M& mask) {
  using P = Packing<T, S, A>;
  T* const first = data + offsets.base;
  if constexpr (P::kPossible && is_same<L, Blocked<S>> && !is_tile_mask<M>) {
    P packed;
    packed.from(values.registers);
    if constexpr (is_direct_mask<M>)
      packed.store_row(first);
    else if constexpr (is_packet_mask<M>)
      packed.store_row(first, mask);
    else if (__builtin_expect(P::aligned(first, offsets), 1))
      store_masked<T, S>(first, offsets, mask, packed);
    else
      store_staged<T, S>(first, offsets, mask, packed);
  } else if constexpr (is_same<L, Blocked<S>>) {
    const ThreadPart<T, S, A, M> part(first, offsets, mask);
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r)
        store_if(L::owns(r) && part.wants(r), part.address(r), values.registers[r]);
  } else {
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
      const int row = L::row(r), column = L::column(r);
      store_if(L::owns(r) && mask.at(row, column, r), first + offset_of(offsets, row, column), values.registers[r]);
    }
  }
}

template <Number T, typename S, Integer I, typename M>
KILN_DEVICE Tile<T, S> load_scattered(const T* data, const Tile<I, S>& offsets, const M& mask, T other) {
  using L = Blocked<S>;
  Tile<T, S> result;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
    const T* const address = data + offsets.registers[r];
    result.registers[r] = is_direct_mask<M> ? *address : load_if(mask.at(L::row(r), L::column(r), r), address, other);
  }
  return result;
}

template <Number T, typename S, Integer I, typename M>
KILN_DEVICE void store_scattered(T* data, const Tile<I, S>& offsets, const Tile<T, S>& values, const M& mask) {
  using L = Blocked<S>;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r)
      store_if(L::owns(r) && mask.at(L::row(r), L::column(r), r), data + offsets.registers[r], values.registers[r]);
}

template <Number T>
KILN_DEVICE void store_number(T* pointer, T value) {
  if (threadIdx.x == 0) *pointer = value;
}

}  // namespace kiln::tl
