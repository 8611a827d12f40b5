#pragma once

#include <cstdint>

#include "core/config.hpp"
#include "core/target.hpp"
#include "ops/common/iteration.hpp"
#include "ops/elementwise/call.hpp"

namespace kiln::elementwise {

// What a CPU's programs take at a time, by default.

/// Elements of a CPU's linear tile. All of its inputs are in registers before the first result leaves, so that they
/// take half of AVX2's (maximum of 2456 f32: 0.46 us in tiles of 128, 0.33 of 64); AVX-512's would hold twice as many,
/// but a call's end is one tile under a mask, and that costs by its size. Bytes of results are packed from 64 numbers.
std::int64_t cpu_block(const ElementwiseCall& call, const Target& target);

/// Elements of a tile that goes past the caches: whole lines of the output, while what is computed is as wide as
/// kStreamedBytes (one thread, Zen 4: add of 80 MB arrays of f64 or i64 11.2 ms by eights of lines, 7.5 by fours).
std::int64_t streamed_elements(const ElementwiseCall& call);

/// An input is dense along the rows and strides along the columns: the tile must be long both ways for either side to
/// use the whole of a cache line.
bool is_transposing(const ops::StridedIteration& iteration, int num_operands);

/// What a CPU's tile holds of rows and columns. Rows run one at a time, a vector at a time; results of a byte fill
/// vectors twice as fast.
Config cpu_tile_default(const ElementwiseCall& call, const ops::StridedIteration& whole, const Target& target);

}  // namespace kiln::elementwise
