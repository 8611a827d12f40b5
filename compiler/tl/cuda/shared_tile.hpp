#pragma once

#include "compiler/tl/arithmetic.hpp"
#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/cuda/pipeline_places.hpp"
#include "compiler/tl/cuda/sm90/shared_memory.hpp"
#include "compiler/tl/cuda/wgmma_layout.hpp"

namespace kiln::tl {

/// Who is told of products that read a tile, or of lanes that do: nobody.
struct NoStep {
  static constexpr bool kThreadsMayMeet = true;
  KILN_DEVICE void values_read() {}
};

/// A tile in shared memory: lines are rows (kAlongColumns) or columns, which lie as SharedPlaces says, as PaddedPlaces,
/// or, of elements that wgmma reads, as PanelPlaces. `address` is one of shared memory's own 32 bits, at a multiple of
/// 1024.
template <Number T, typename ShapeT, bool kAlongColumns, bool kPadded = false, typename Step = NoStep>
struct SharedTile {
  using value_type = T;
  using shape = ShapeT;
  static constexpr bool kRowsAreLines = kAlongColumns;
  static constexpr bool kHasPadding = kPadded;
  static constexpr int kPerChunk = SharedPlaces::kChunkBytes / static_cast<int>(sizeof(T));
  static constexpr int kLineElements = kAlongColumns ? ShapeT::kColumns : ShapeT::kRows;
  static constexpr int kChunksPerLine = kLineElements / kPerChunk;
  static_assert(kChunksPerLine >= 1, "a line of a tile in shared memory is 16 bytes or more");
  static constexpr int kLines = ShapeT::kNumel / kLineElements;
  static constexpr int kBytes = kPadded ? padded_tile_bytes(kLines, kLineElements)
                                        : shared_tile_bytes(ShapeT::kRows, ShapeT::kColumns, sizeof(T));
  using Places =
      conditional_t<kPadded, PaddedPlaces<kChunksPerLine>,
                    conditional_t<kHasWgmma && sizeof(T) <= 4, PanelPlaces<kLines, kChunksPerLine>, SharedPlaces>>;

  uint32_t address;
  Step* step = nullptr;

  /// An address moved by that of a chunk whose number has no bit in common with the one of lane_address.
  static KILN_DEVICE uint32_t moved(uint32_t lane_address, unsigned int chunk) {
    static_assert(is_power_of_two(kChunksPerLine),
                  "a tile whose lines in shared memory are no power of two is for the products of sm_90a's warpgroups "
                  "(a multiple of 64 rows, 4 or 8 warps), and not turned for them");
    const unsigned int offset = Places::offset(chunk);
    if constexpr (kPadded)
      return lane_address + offset;
    else  // the low part of an address is a XOR
      return (lane_address ^ (offset & (SharedPlaces::kLineBytes - 1))) + (offset & ~(SharedPlaces::kLineBytes - 1u));
  }
};

template <typename T>
inline constexpr bool is_shared_tile = false;
template <typename T, typename S, bool kAlongColumns, bool kPadded, typename Step>
inline constexpr bool is_shared_tile<SharedTile<T, S, kAlongColumns, kPadded, Step>> = true;

template <typename T>
inline constexpr bool kIsOfPipeline = false;
template <typename T, typename S, bool kAlongColumns, bool kPadded, typename Step>
inline constexpr bool kIsOfPipeline<SharedTile<T, S, kAlongColumns, kPadded, Step>> = !is_same<Step, NoStep>;

/// Whether all threads may meet while `T` is used.
template <typename T>
inline constexpr bool kThreadsMayMeet = true;
template <typename T, typename S, bool kAlongColumns, bool kPadded, typename Step>
inline constexpr bool kThreadsMayMeet<SharedTile<T, S, kAlongColumns, kPadded, Step>> = Step::kThreadsMayMeet;

template <typename T, typename S, bool kAlongColumns, bool kPadded, typename Step>
inline constexpr bool is_pipeline_tile<SharedTile<T, S, kAlongColumns, kPadded, Step>> = true;

/// A pipeline's tile with rows and columns exchanged, where it lies: the same lines under another name. One tile so is
/// the second operand of two products, keys of one and values of the other.
template <typename T, typename S, bool kAlongColumns, bool kPadded, typename Step>
KILN_DEVICE SharedTile<T, Shape<S::kColumns, S::kRows>, !kAlongColumns, kPadded, Step> trans(
    const SharedTile<T, S, kAlongColumns, kPadded, Step>& x) {
  return {x.address, x.step};
}

KILN_DEVICE uint32_t shared_window_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

/// Four 8x8 matrices of 2-byte elements; lane 8 * m + r names row r of matrix m. Lane 4 * g + t gets of each matrix the
/// elements 2 * t and 2 * t + 1 of row g; turned, of column g.
template <bool kTurned>
KILN_DEVICE void load_matrices(uint32_t (&matrices)[4], uint32_t row_address) {
  if constexpr (kTurned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(row_address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(row_address)
                 : "memory");
}

KILN_DEVICE uint32_t load_shared_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}
KILN_DEVICE double load_shared_double(uint32_t address) {
  double value;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(value) : "r"(address) : "memory");
  return value;
}
KILN_DEVICE void load_shared_doubles(uint32_t address, double& first, double& second) {
  asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(first), "=d"(second) : "r"(address) : "memory");
}
KILN_DEVICE void load_shared_floats(uint32_t address, float (&values)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
               : "r"(address)
               : "memory");
}

template <int kBytes>
KILN_DEVICE typename PacketOf<kBytes>::type load_shared_packet(uint32_t address) {
  typename PacketOf<kBytes>::type packet;
  if constexpr (kBytes == 16) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(packet.x), "=r"(packet.y), "=r"(packet.z), "=r"(packet.w)
                 : "r"(address)
                 : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(packet.x), "=r"(packet.y) : "r"(address) : "memory");
  } else if constexpr (kBytes == 4) {
    packet = load_shared_word(address);
  } else {
    uint32_t bits;
    if constexpr (kBytes == 2)
      asm volatile("{.reg .u16 x; ld.shared.u16 x, [%1]; cvt.u32.u16 %0, x;}" : "=r"(bits) : "r"(address) : "memory");
    else
      asm volatile("ld.shared.u8 %0, [%1];" : "=r"(bits) : "r"(address) : "memory");
    packet = static_cast<typename PacketOf<kBytes>::type>(bits);
  }
  return packet;
}

/// A tile in shared memory as values in layout L.
template <typename L, typename T, typename S, bool kAlongColumns, bool kPadded, typename Step>
KILN_DEVICE Tile<T, S, L> values_in_layout(const SharedTile<T, S, kAlongColumns, kPadded, Step>& x) {
  using Shared = SharedTile<T, S, kAlongColumns, kPadded, Step>;
  constexpr int kRun = kAlongColumns ? smaller(kRunOf<L>, Shared::kPerChunk) : 1;
  Tile<T, S, L> result;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; r += kRun) {
    const int line = kAlongColumns ? L::row(r) : L::column(r), place = kAlongColumns ? L::column(r) : L::row(r);
    const int chunk = line * Shared::kChunksPerLine + place / Shared::kPerChunk;
    const auto packet = load_shared_packet<kRun* static_cast<int>(sizeof(T))>(
        x.address + Shared::Places::offset(static_cast<unsigned int>(chunk)) +
        static_cast<uint32_t>(place % Shared::kPerChunk * static_cast<int>(sizeof(T))));
    memcpy(&result.registers[r], &packet, sizeof packet);
  }
  return result;
}
/// Lanes have read a tile, and not as operands.
template <typename T, typename S, bool kAlongColumns, bool kPadded, typename Step>
KILN_DEVICE void values_were_read(const SharedTile<T, S, kAlongColumns, kPadded, Step>& x) {
  if constexpr (!is_same<Step, NoStep>) x.step->values_read();
  if constexpr (is_same<T, float>) asm volatile("// kiln.f32_tiles");  // see BoxForm
}

/// A pipeline's tile as values, in the default layout of its shape.
template <typename T, typename S, bool kAlongColumns, bool kPadded, typename Step>
KILN_DEVICE Tile<T, S> to_values(const SharedTile<T, S, kAlongColumns, kPadded, Step>& x) {
  const auto values = values_in_layout<Blocked<S>>(x);
  values_were_read(x);
  return values;
}

/// Writes a value tile to shared memory, its lines along its rows. A barrier stands before and after.
template <Number T, typename S, typename L>
KILN_DEVICE SharedTile<T, S, true> share_tile(const Tile<T, S, L>& x, unsigned char* shared) {
  using Shared = SharedTile<T, S, true>;
  constexpr int kRun = smaller(kRunOf<L>, Shared::kPerChunk);
  using Packet = typename PacketOf<kRun * sizeof(T)>::type;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; r += kRun) {
    if (L::owns(r)) {
      const int row = L::row(r), column = L::column(r);
      const int chunk = row * Shared::kChunksPerLine + column / Shared::kPerChunk;
      Packet packet;
      memcpy(&packet, &x.registers[r], sizeof packet);
      *reinterpret_cast<Packet*>(shared + Shared::Places::offset(static_cast<unsigned int>(chunk)) +
                                 column % Shared::kPerChunk * static_cast<int>(sizeof(T))) = packet;
    }
  }
  if constexpr (kHasWgmma) sm90::writes_ready();
  return {shared_window_address(shared)};
}

}  // namespace kiln::tl
