#pragma once

// Included by kernels and by the host that fills this struct in, so it includes nothing and uses only built-in types.

namespace kiln::ops {

/// Most dimensions beside the scanned one and the tile's other: kMaxRank - 2.
inline constexpr int kMaxScanOuterDims = 10;

/// Operands of a scan.
enum ScanOperand { kScanOut, kScanIn, kScanOperands };

/// The lines that a scan runs along, each of `length` elements, cut into chunks. A tile covers several lines that are
/// neighbours along one dimension (`lines` of them); the outer dimensions number the others. Program p has chunk
/// p % chunks of line block (p / chunks) % line_blocks at outer index p / (chunks * line_blocks), which outer_extents
/// split with dimension 0 fastest. Strides are in elements.
struct ScanIteration {
  long long length, chunk_length, chunks;
  long long lines, line_blocks;
  long long length_strides[kScanOperands], line_strides[kScanOperands];
  int num_outer_dims;
  long long outer_extents[kMaxScanOuterDims], outer_strides[kScanOperands][kMaxScanOuterDims];
};

}  // namespace kiln::ops
