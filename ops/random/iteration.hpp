#pragma once

// Included by kernels and by the host that fills these structs in, so it includes nothing and uses only built-in types.

namespace kiln::ops {

/// Philox's key words of each round, computed on the host: the GPU then reads them as constants, where each thread
/// would spend on them half of what a block of random numbers takes.
struct RoundKeys {
  unsigned int low[10], high[10];
};

/// A distribution's parameters, in both float types; a functor reads those it knows.
struct Distribution {
  double f64[2];               ///< uniform: low, high - low; normal: mean, std; dropout: 1 / (1 - p)
  float f32[2];                ///< the same, rounded
  unsigned long long bits[2];  ///< randint: low, high - low; bernoulli, dropout: p 2^32
};

/// Most dimensions of a strided kernel: kMaxRank.
inline constexpr int kMaxRandomDims = 12;

/// Element i of the row-major order has the coordinates that extents split i into, dimension 0 (the last of the tensor)
/// fastest, and lies at coordinates . strides[o] in operand o: the output, then the input if there is one.
struct RowMajorIteration {
  long long n;
  int num_dims;
  long long extents[kMaxRandomDims];
  long long strides[2][kMaxRandomDims];
};

}  // namespace kiln::ops
