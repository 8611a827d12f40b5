#pragma once

#include <cstddef>
#include <vector>

#include "autotune/database_document.hpp"
#include "autotune/entry_set.hpp"

namespace kiln {

/// Leaves what takes `most_bytes` at most as a document. The oldest go first: what they rest on but for the times of
/// the choice and of the default, then, when no entry has more than those, what is damaged, then the entries
/// themselves.
void shrink_to(std::size_t most_bytes, EntrySet& entries, std::vector<DamagedEntry>& damaged);

}  // namespace kiln
