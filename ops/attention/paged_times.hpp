#pragma once

#include <cstdint>

#include "core/config.hpp"
#include "ops/attention/head_kind.hpp"
#include "ops/attention/paged_call.hpp"

namespace kiln::attention {

/// Microseconds that a call over pages takes on a GPU by this config, with each request's keys in so many parts.
///
/// Memory's rate bounds it: a turn of as many programs as the GPU runs at a time takes what their keys and values take,
/// and what begins and ends a program. Few programs are held up by latency. Requests may be alike, or anything up to
/// what the table has room for: both count. Constants are those of an H200 (benchmarks/gpu_attention.py).
double paged_us(const HeadKind& kind, const PagedCall& call, const Config& config, std::int64_t splits);

}  // namespace kiln::attention
