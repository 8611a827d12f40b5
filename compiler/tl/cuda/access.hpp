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

/// How a thread reaches the runs of a tile with contiguous columns: packets of at most 16 bytes.
template <typename T, typename S, AffineTile A>
struct Packing {
  using L = Blocked<S>;
  static constexpr int kElements = smaller(L::kVector, 16 / static_cast<int>(sizeof(T)));
  static constexpr int kBytes = kElements * static_cast<int>(sizeof(T));
  static constexpr bool kPossible = is_same<typename A::column_stride_type, Constant<1>> && kElements > 1;
  using packet = typename PacketOf<kBytes>::type;

  KILN_DEVICE static void load(T* registers, const T* address) {
    const packet moved = *reinterpret_cast<const packet*>(address);
    memcpy(registers, &moved, kBytes);
  }
  KILN_DEVICE static void store(T* address, const T* registers) {
    packet moved;
    memcpy(&moved, registers, kBytes);
    *reinterpret_cast<packet*>(address) = moved;
  }

  /// Whether every run starts at a multiple of the packet's size: one test per tile, the same in all threads.
  KILN_DEVICE static bool aligned(const T* first, const A& offsets) {
    const uint64_t row_bytes =
        S::kRows == 1 ? 0 : static_cast<uint64_t>(static_cast<int64_t>(offsets.row_stride)) * sizeof(T);
    return ((reinterpret_cast<uint64_t>(first) | row_bytes) & (kBytes - 1)) == 0;
  }
};

template <AffineTile A>
KILN_DEVICE int64_t offset_of(const A& offsets, int row, int column) {
  return row * static_cast<int64_t>(offsets.row_stride) + column * static_cast<int64_t>(offsets.column_stride);
}

template <int kBytes>
KILN_DEVICE unsigned char* shared_bytes() {
  __shared__ alignas(16) unsigned char bytes[kBytes];
  return bytes;
}

// A full and aligned tile moves in packets between registers and memory. Any other tile takes the same packets from or
// to shared memory, and functions that are not inlined carry its elements between there and memory one by one. So the
// code that usually runs is one straight piece (jumps into instruction cache that is still cold cost a kernel of a few
// microseconds several percent), and what seldom runs is compiled once per kind of tile. Masking every unrolled access
// in place was the alternative: twice the compile time, and ptxas took 16-bit packets apart where the paths met, so
// that one load had to arrive before the next was issued.

/// A tile passes through shared memory in pieces of whole runs.
template <typename T, typename S>
struct Staging {
  using L = Blocked<S>;
  static constexpr int kRunBytes = L::kPitch * static_cast<int>(sizeof(T));
  static constexpr int kRuns = smaller(L::kRuns, larger(1, 16 * 1024 / kRunBytes));
  static constexpr int kRegisters = kRuns * L::kVector;
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

/// Fills shared memory with the piece from first_element on and returns where element 0 of the tile would be.
template <Number T, typename S, AffineTile A, typename M>
__device__ __noinline__ const T* stage_in(const T* first, A offsets, M mask, T other, int first_element) {
  using G = Staging<T, S>;
  T* const staged = G::memory();
  __syncthreads();  // an earlier piece may still be read
  G::for_each_batch(first_element, [&](const int(&places)[G::kBatch], int from) {
    T values[G::kBatch];
    KILN_UNROLL for (int i = 0; i < G::kBatch; ++i) {
      const int row = (from + places[i]) / S::kColumns, column = (from + places[i]) % S::kColumns;
      values[i] = load_if(mask.at(row, column, 0), first + offset_of(offsets, row, column), other);
    }
    KILN_UNROLL for (int i = 0; i < G::kBatch; ++i) staged[places[i]] = values[i];
  });
  __syncthreads();
  return staged - first_element;
}

/// Where element 0 of the tile would be, for writing the piece from first_element on.
template <Number T, typename S>
__device__ __noinline__ T* stage_for_writing(int first_element) {
  __syncthreads();  // an earlier piece may still be read
  return Staging<T, S>::memory() - first_element;
}

template <Number T, typename S, AffineTile A, typename M>
__device__ __noinline__ void stage_out(T* first, A offsets, M mask, int first_element) {
  using G = Staging<T, S>;
  const T* const staged = G::memory();
  __syncthreads();
  G::for_each_batch(first_element, [&](const int(&places)[G::kBatch], int from) {
    KILN_UNROLL for (int i = 0; i < G::kBatch; ++i) {
      const int row = (from + places[i]) / S::kColumns, column = (from + places[i]) % S::kColumns;
      store_if(mask.at(row, column, 0), first + offset_of(offsets, row, column), staged[places[i]]);
    }
  });
}

template <Number T, typename S, AffineTile A, typename M>
KILN_DEVICE Tile<T, S> load_affine(const T* data, const A& offsets, const M& mask, T other) {
  using L = Blocked<S>;
  using P = Packing<T, S, A>;
  Tile<T, S> result;
  const T* const first = data + offsets.base;
  const bool full = mask.all();
  if constexpr (P::kPossible && !is_tile_mask<M>) {
    using G = Staging<T, S>;
    const bool direct = full && P::aligned(first, offsets);
    KILN_UNROLL for (int start = 0; start < L::kRegisters; start += G::kRegisters) {
      const T* from = first;
      int64_t pitch = static_cast<int64_t>(offsets.row_stride);
      if (__builtin_expect(!direct, 0)) {
        from = stage_in<T, S>(first, offsets, mask, other, start * kNumThreads);
        pitch = S::kColumns;
      }
      KILN_UNROLL for (int r = start; r < start + G::kRegisters; r += P::kElements)
          P::load(&result.registers[r], from + (L::row(r) * pitch + L::column(r)));
    }
  } else if (__builtin_expect(full, 1)) {
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
    using G = Staging<T, S>;
    const bool direct = mask.all() && P::aligned(first, offsets);
    KILN_UNROLL for (int start = 0; start < L::kRegisters; start += G::kRegisters) {
      T* to = first;
      int64_t pitch = static_cast<int64_t>(offsets.row_stride);
      if (__builtin_expect(!direct, 0)) {
        to = stage_for_writing<T, S>(start * kNumThreads);
        pitch = S::kColumns;
      }
      KILN_UNROLL for (int r = start; r < start + G::kRegisters; r += P::kElements)
          P::store(to + (L::row(r) * pitch + L::column(r)), &values.registers[r]);
      if (__builtin_expect(!direct, 0)) stage_out<T, S>(first, offsets, mask, start * kNumThreads);
    }
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
