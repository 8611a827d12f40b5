#include "benchmarks/hand_written.hpp"

void hand_written_add(const float* x, const float* y, float* out, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) out[i] = x[i] + y[i];
}
