#pragma once

#include <string_view>
#include <vector>

#include "core/box_map.hpp"

namespace kiln {

/// The loads of kernel `entry` that the copy engine can fetch, by what the tile language says of them in comments in
/// the PTX (compiler/tl/cuda/box_copy.hpp): each once. Left out are those whose lines are apart by what does not follow
/// from the kernel's parameters by arithmetic alone; a kernel that is given no map for a load copies it by threads.
std::vector<BoxLoad> box_loads(std::string_view ptx, std::string_view entry);

}  // namespace kiln
