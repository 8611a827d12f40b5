#pragma once

// Included by kernels and by the host that fills these structs in, so it includes nothing and uses only built-in types.
// Strides and widths count elements in the kernels of kernel_paged.hpp, bytes in those of kernel_paged.cuh.

namespace kiln::ops {

/// A cache of `num_blocks` blocks of `page` tokens, in either layout: the row of token `place` of a block and head
/// `head` starts at block * block_stride + place * place_stride + head * head_stride.
struct PagedCache {
  long long num_blocks, page;  ///< page is 1 or more; a cache whose pages are empty has no blocks
  long long block_stride, place_stride, head_stride, element_stride;
};

/// Programs count parts of a request's tokens, then requests; in packets they count heads first.
struct PagedGatherIteration {
  PagedCache cache;
  long long parts;
  long long tokens;           ///< of the output, for each request
  long long readable_tokens;  ///< of those, what a block table of this width can hold
  long long heads, width;     ///< of rows, one for each token and head
  long long table_strides[2], length_stride;
  long long out_strides[4];  ///< request, head, token, element
};

/// Rows are one for each token and head, heads fastest. Programs count parts of the rows, then layers, each with its
/// keys and then its values.
struct PagedAppendIteration {
  PagedCache caches[2];  ///< of keys, of values
  long long parts;
  long long tokens, heads, width;
  long long slot_stride;
  long long strides[2][4];     ///< of the new keys and values: layer, token, head, element
  long long table_strides[2];  ///< of the tables of the caches' addresses
};

/// Axis 0 covers the pieces of a block, axis 1 the pairs, in turns.
struct SwapIteration {
  long long pairs, width;
  long long num_blocks[2], block_strides[2];  ///< source, destination
  long long pair_stride, side_stride;         ///< of the mapping
};

/// Indices of `columns` kinds; entry (row, column) lies at row * row_stride + column * column_stride and is legal below
/// limits[column].
struct IndexCheckIteration {
  long long rows;
  long long row_stride, column_stride;
  long long limits[2];
};

/// A block table: the entries that `lengths` tokens use are legal from 0 to below num_blocks, lengths from 0 to
/// most_tokens.
struct TableCheckIteration {
  long long requests, most_tokens, page, num_blocks;
  long long table_strides[2], length_stride;
};

/// What a check says of a program that found nothing.
inline constexpr long long kNothingFound = 0x7fffffffffffffffLL;

}  // namespace kiln::ops
