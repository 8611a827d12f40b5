#pragma once

#include <cstdint>
#include <optional>

#include "core/config.hpp"
#include "ops/attention/head_kind.hpp"
#include "ops/attention/kernel_form.hpp"

namespace kiln::attention {

/// What of a call decides how long its blocks of queries take.
struct BlockWork {
  std::int64_t queries = 0, keys = 0;     ///< of a request
  std::int64_t heads = 0;                 ///< of all requests
  std::optional<std::int64_t> low, high;  ///< query i sees keys from i + low to i + high, where there are bounds
  std::int64_t processors = 0;            ///< multiprocessors; 0: unknown
  /// Whether the copy engine can bring keys and values: rows 16 bytes or a multiple apart, not in pages. Warps beside a
  /// program's have nothing to copy otherwise.
  bool in_boxes = false;
};

/// Of the configs that were measured on an H200 for 16-bit heads of this kind, or estimated from these for heads of two
/// tiles, the one with which a call ought to take the least time.
Config quickest_config(const HeadKind& kind, const ops::AttentionForm& form, const BlockWork& work);

}  // namespace kiln::attention
