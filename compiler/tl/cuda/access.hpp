#pragma once

#include "compiler/tl/cuda/conditional_access.hpp"
#include "compiler/tl/mask.hpp"

namespace kiln::tl {

/// kBytes moved by one instruction. CUDA's vector types rather than an aligned struct of elements, which the optimiser takes apart when a slow path beside it
/// accesses the same elements one by one.
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
    const uint64_t row_bytes = S::kRows == 1 ? 0 : static_cast<uint64_t>(static_cast<int64_t>(offsets.row_stride)) * sizeof(T);
    return ((reinterpret_cast<uint64_t>(first) | row_bytes) & (kBytes - 1)) == 0;
  }
};

template <AffineTile A>
KILN_DEVICE int64_t offset_of(const A& offsets, int row, int column) {
  return row * static_cast<int64_t>(offsets.row_stride) + column * static_cast<int64_t>(offsets.column_stride);
}

// A tile with contiguous columns has two paths. The fast one, for a full and aligned tile, is packets between registers and memory, marked likely so that it lies in
// one piece at the kernel's start: a jump into code that is not cached yet costs a small kernel a tenth of its time. The other one asks every element, except where
// a run is full after all.

template <Number T, typename S, AffineTile A, typename M>
KILN_DEVICE Tile<T, S> load_affine(const T* data, const A& offsets, const M& mask, T other) {
  using L = Blocked<S>;
  using P = Packing<T, S, A>;
  Tile<T, S> result;
  const T* const first = data + offsets.base;
  if constexpr (P::kPossible) {
    const bool aligned = P::aligned(first, offsets);
    if (__builtin_expect(aligned && mask.all(), 1)) {
      KILN_UNROLL for (int r = 0; r < L::kRegisters; r += P::kElements)
        P::load(&result.registers[r], first + offset_of(offsets, L::row(r), L::column(r)));
      return result;
    }
    KILN_UNROLL for (int r = 0; r < L::kRegisters; r += P::kElements) {
      const int row = L::row(r), column = L::column(r);
      const T* const address = first + offset_of(offsets, row, column);
      if (aligned && mask.run(row, column, P::kElements)) {
        P::load(&result.registers[r], address);
      } else {
        KILN_UNROLL for (int i = 0; i < P::kElements; ++i)
          result.registers[r + i] = load_if(mask.at(row, column + i, r + i), address + i, other);
      }
    }
  } else if constexpr (is_same<typename A::column_stride_type, Constant<0>>) {
    // One address per run, read where any of its elements is wanted.
    KILN_UNROLL for (int r = 0; r < L::kRegisters; r += L::kVector) {
      const int row = L::row(r), column = L::column(r);
      bool wanted[L::kVector], any = false;
      KILN_UNROLL for (int i = 0; i < L::kVector; ++i) any |= wanted[i] = mask.at(row, column + i, r + i);
      const T value = load_if(any, first + offset_of(offsets, row, 0), other);
      KILN_UNROLL for (int i = 0; i < L::kVector; ++i) result.registers[r + i] = wanted[i] ? value : other;
    }
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
  if constexpr (P::kPossible && is_same<L, Blocked<S>>) {
    const bool aligned = P::aligned(first, offsets);
    if (__builtin_expect(aligned && mask.all(), 1)) {
      KILN_UNROLL for (int r = 0; r < L::kRegisters; r += P::kElements)
        P::store(first + offset_of(offsets, L::row(r), L::column(r)), &values.registers[r]);
      return;
    }
    KILN_UNROLL for (int r = 0; r < L::kRegisters; r += P::kElements) {
      const int row = L::row(r), column = L::column(r);
      T* const address = first + offset_of(offsets, row, column);
      if (aligned && mask.run(row, column, P::kElements)) {
        P::store(address, &values.registers[r]);
      } else {
        KILN_UNROLL for (int i = 0; i < P::kElements; ++i)
          store_if(mask.at(row, column + i, r + i), address + i, values.registers[r + i]);
      }
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
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r)
    result.registers[r] = load_if(mask.at(L::row(r), L::column(r), r), data + offsets.registers[r], other);
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
