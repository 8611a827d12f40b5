#pragma once

#include "ops/layout/copy_plan.hpp"

namespace kiln::layout {

/// The tunables of a kernel. A transposing GPU kernel's are in bytes, so that one space suits every dtype: ROW_BYTES of
/// each row of the output, TILE_BYTES in all.
ConfigSpace config_space(CopyKind kind, const Target& target);
Config default_config(CopyKind kind, const Copy& copy, const Target& target);
/// Tiles of a GPU's programs over `rows` x `columns` elements of `itemsize` bytes that are dense along the columns.
/// is_wide: accesses have 16 bytes.
Config dense_rows_config(std::int64_t itemsize, std::int64_t rows, std::int64_t columns, bool is_wide);

}  // namespace kiln::layout
