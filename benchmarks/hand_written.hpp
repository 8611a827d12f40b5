#pragma once

#include <cstdint>

/// The loop an engineer would write, compiled with -O3 -march=native: what Kiln's CPU target is measured against.
void hand_written_add(const float* x, const float* y, float* out, std::int64_t begin, std::int64_t end);
