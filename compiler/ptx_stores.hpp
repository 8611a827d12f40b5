#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace kiln {

/// Of each place in the text of a PTX function, which begins a line there: whether a thread may have written global
/// memory before it comes to it, on any path. Calls count as writes.
std::vector<bool> follow_stores(std::string_view body, const std::vector<std::size_t>& places);

}  // namespace kiln
