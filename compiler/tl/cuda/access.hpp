#pragma once

#include "compiler/tl/cuda/conditional_access.hpp"
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

  KILN_DEVICE void load(const T* first, int64_t pitch) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) packets[i] = *address(first, pitch, i);
  }
  KILN_DEVICE void store(T* first, int64_t pitch) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) * address(first, pitch, i) = packets[i];
  }

  KILN_DEVICE void load_row(const T* first) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) packets[i] = *row_address(first, i);
  }
  KILN_DEVICE void store_row(T* first) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) * row_address(first, i) = packets[i];
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

// A full and aligned tile moves in packets between registers and memory. Any other tile goes by way of functions that
// are not inlined, which take the same packets from or to shared memory and carry the elements between there and memory
// one by one. So the code that usually runs is one straight piece (jumps into instruction cache that is still cold cost
// a kernel of a few microseconds several percent), and what seldom runs is compiled once per kind of tile. Masking
// every unrolled access in place was the alternative: twice the compile time, and ptxas took 16-bit packets apart where
// the paths met, so that one load had to arrive before the next was issued.

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

template <Number T, typename S, AffineTile A, typename M>
__device__ __noinline__ Packing<T, S, A> load_staged(const T* first, A offsets, M mask, T other) {
  using G = Staging<T, S>;
  using P = Packing<T, S, A>;
  constexpr int kPackets = P::kCount / G::kPieces;
  T* const staged = G::memory();
  P result;
  KILN_UNROLL for (int piece = 0; piece < G::kPieces; ++piece) {
    __syncthreads();  // an earlier piece may still be read
    G::for_each_batch(piece * G::kElements, [&](const int(&places)[G::kBatch], int from) {
      T values[G::kBatch];
      KILN_UNROLL for (int i = 0; i < G::kBatch; ++i) {
        const int row = (from + places[i]) / S::kColumns, column = (from + places[i]) % S::kColumns;
        values[i] = load_if(mask.at(row, column, 0), first + offset_of(offsets, row, column), other);
      }
      KILN_UNROLL for (int i = 0; i < G::kBatch; ++i) staged[places[i]] = values[i];
    });
    __syncthreads();
    KILN_UNROLL for (int i = piece * kPackets; i < (piece + 1) * kPackets; ++i) result.packets[i] =
        *P::address(const_cast<const T*>(staged) - piece * G::kElements, S::kColumns, i);
  }
  return result;
}

template <Number T, typename S, AffineTile A, typename M>
__device__ __noinline__ void store_staged(T* first, A offsets, M mask, Packing<T, S, A> values) {
  using G = Staging<T, S>;
  using P = Packing<T, S, A>;
  constexpr int kPackets = P::kCount / G::kPieces;
  T* const staged = G::memory();
  KILN_UNROLL for (int piece = 0; piece < G::kPieces; ++piece) {
    __syncthreads();  // an earlier piece may still be read
    KILN_UNROLL for (int i = piece * kPackets; i < (piece + 1) * kPackets; ++i) *
        P::address(staged - piece * G::kElements, S::kColumns, i) = values.packets[i];
    __syncthreads();
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
    const int64_t pitch = static_cast<int64_t>(offsets.row_stride);
    if constexpr (is_direct_mask<M>)
      values.load_row(first);
    else if (__builtin_expect(mask.all() && P::aligned(first, offsets), 1))
      values.load(first, pitch);
    else
      values = load_staged<T, S>(first, offsets, mask, other);
    values.to(result.registers);
  } else if (kColumnsKnown && __builtin_expect(mask.all(), 1)) {
    // Without a condition, loads of one address become one.
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) result.registers[r] =
        first[offset_of(offsets, L::row(r), L::column(r))];
  } else {
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
      const int row = L::row(r), column = L::column(r);
      result.registers[r] = load_if(mask.at(row, column, r), first + offset_of(offsets, row, column), other);
    }
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
    const int64_t pitch = static_cast<int64_t>(offsets.row_stride);
    if constexpr (is_direct_mask<M>)
      packed.store_row(first);
    else if (__builtin_expect(mask.all() && P::aligned(first, offsets), 1))
      packed.store(first, pitch);
    else
      store_staged<T, S>(first, offsets, mask, packed);
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
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) result.registers[r] =
      load_if(mask.at(L::row(r), L::column(r), r), data + offsets.registers[r], other);
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
