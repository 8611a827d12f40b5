#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

/// Threads' packets of a GPU kernel that counts them in 32 bits: IN_FLIGHT for each thread.
ConfigSpace packets_space();
/// For a call that moves so many packets.
Config packets_default_for(std::int64_t packets);
/// Whether such a kernel can count to so many elements.
bool counts_in_32_bits(std::int64_t count);
/// Packets that a program moves at once.
std::int64_t batch_packets(const Config& config);
/// Bytes of a packet: the most, up to 16, that all of these are multiples of. They are multiples of `itemsize_bytes`.
std::int64_t packet_bytes(std::int64_t itemsize_bytes, std::span<const std::int64_t> multiples_bytes);
/// As kernels spell it.
TemplateArgument packet_type(std::int64_t bytes);

/// The portable kernels': ROWS times `heads` rows for each program in tiles of BLOCK_BYTES.
ConfigSpace rows_space(const Target& target);
Config rows_default(std::int64_t row_bytes, std::int64_t heads, const Target& target);

}  // namespace kiln::kv_cache
