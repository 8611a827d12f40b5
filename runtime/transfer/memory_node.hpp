#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kiln {

/// Makes the pages of freshly mapped memory, by writing to each from several threads: one thread makes 1 to 2 GB a
/// second where huge pages cannot be had. `node` is the memory node (NUMA) to have them on, a wish that a full node or
/// a sandbox may not grant; -1 for no wish.
void make_pages(void* memory, std::int64_t size_bytes, int node);

/// The processors of "0-3,8,10-11", as the system lists those of a memory node. Empty for anything else.
std::vector<int> parse_processor_list(std::string_view text);

}  // namespace kiln
