#pragma once

// Where the elements of a tile that tl::dot reads lie in shared memory, and how much of it a pipeline needs: arithmetic
// alone, for launches on the host and for tests that count bank conflicts.

namespace kiln::tl {

/// The 16-byte chunks of a tile, numbered along its lines (rows, or columns where those are contiguous), each at an
/// offset of its own. Chunks of a line of 128 bytes, all banks, keep to that line and change places in it by a XOR with
/// a function of the line's number. Its eight bits are vectors over {0, 1}^3, chosen so that the chunks that one
/// instruction touches differ in all banks: those of one place in eight lines that are 1, 2, 4 or 8 apart (ldmatrix of
/// rows of 128 to 1024 bytes, and of every other row), and pairs in four such lines (32-bit reads of tf32). Both XOR
/// and numbering are linear over bits: offset(a | b) = offset(a) ^ offset(b) where a and b share no bits, which makes
/// the part that differs from access to access a constant. Padding lines by a chunk was the alternative: it costs
/// memory, and gives up alignment to 128 bytes.
struct SharedPlaces {
  static constexpr int kChunkBytes = 16, kLineBytes = 128;

  static constexpr unsigned int order(unsigned int line) {
    return (line ^ (line >> 3 & 1) * 3 ^ (line >> 4 & 1) * 5 ^ (line >> 5 & 1) * 2) & 7;
  }
  /// Byte offset of chunk `chunk`.
  static constexpr unsigned int offset(unsigned int chunk) { return (chunk ^ order(chunk / 8)) * kChunkBytes; }
};

/// The same of lines of kChunksPerLine chunks with one left empty behind each. An access names eight neighbouring
/// chunks of one line, or elements of one place in eight lines: neither needs the XOR, and without it all of an address
/// that differs from access to access is an offset that an instruction holds in itself.
template <unsigned int kChunksPerLine>
struct PaddedPlaces {
  static constexpr unsigned int offset(unsigned int chunk) {
    return (chunk + chunk / kChunksPerLine) * SharedPlaces::kChunkBytes;
  }
};

/// The same as wgmma and the copy engine know it: lines of more than 128 bytes are cut into panels of 128 bytes a line,
/// one panel behind the other, and chunks change places within a line by the swizzle, a XOR of bits 4 to 6 of the
/// offset with bits 7 to 9 (fewer where lines are shorter), of which panels of fewer than eight lines have some. Eight
/// neighbouring lines differ in all banks. Lines that are no whole number of 128 bytes have panels of 64 or 32, of
/// which they are; a narrower one at the end would be swizzled in another way than those before it. Linear over bits
/// like SharedPlaces where a line's chunks are a power of two.
template <int kLines, int kChunksPerLine>
struct PanelPlaces {
  static constexpr int kEvenChunks = kChunksPerLine & -kChunksPerLine;  ///< the power of two that divides them
  static constexpr int kPanelChunks = kEvenChunks < 8 ? kEvenChunks : 8;
  static constexpr int kPanelLineBytes = kPanelChunks * SharedPlaces::kChunkBytes;
  static constexpr int kPanelBytes = kLines * kPanelLineBytes;

  static constexpr unsigned int offset(unsigned int chunk) {
    const unsigned int line = chunk / kChunksPerLine, in_line = chunk % kChunksPerLine;
    const unsigned int whole = in_line / kPanelChunks * kPanelBytes + line * kPanelLineBytes +
                               in_line % kPanelChunks * SharedPlaces::kChunkBytes;
    return whole ^ ((whole >> 3) & ((kPanelChunks - 1) * 16));
  }
};

/// Shared memory of one tile: whole groups of eight lines of 128 bytes, within which chunks change places.
constexpr int shared_tile_bytes(int rows, int columns, int element_bytes) {
  constexpr int kGroupBytes = 8 * SharedPlaces::kLineBytes;
  return (rows * columns * element_bytes + kGroupBytes - 1) / kGroupBytes * kGroupBytes;
}

/// Shared memory of one tile of float whose load names its lines (TileLines).
constexpr int padded_tile_bytes(int lines, int line_elements) {
  return lines * (line_elements * 4 + SharedPlaces::kChunkBytes);
}

/// Dynamic shared memory that a kernel needs for tl::pipeline<num_stages> of tiles of these sizes, for constraints
/// before anything is compiled:
///
///     pipeline_shared_bytes(num_stages, shared_tile_bytes(block_m, block_k, 2), shared_tile_bytes(block_k, block_n,
///     2))
template <typename... Bytes>
constexpr int pipeline_shared_bytes(int num_stages, Bytes... tile_bytes) {
  return num_stages * (tile_bytes + ... + 0);
}

}  // namespace kiln::tl
