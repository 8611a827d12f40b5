#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kiln::cli {

/// What --sweep says: "N=1:64K" lets N double from 1 to 65536, "N=1,100,3000" lists its values; "1K:256M" lets the
/// call's tensors double in bytes.
struct SweepRange {
  std::string variable;  ///< empty: the range counts bytes
  std::int64_t low = 1;
  std::int64_t high = 0;                  ///< inclusive
  std::vector<std::int64_t> listed = {};  ///< in place of low and high, growing
};

/// UsageError(value) for another text, for sizes of 0 and for a low end above the high end.
SweepRange parse_sweep_range(const std::string& text);

/// Whether `text` is a name that may stand for an extent: capital letters, digits and '_', a letter first.
bool is_sweep_variable(const std::string& text);

/// The values that the variable takes: those listed, or low, 2 low, 4 low up to high; of a range in bytes the powers of
/// two whose call has so many. `bytes_of` grows with the variable, and throws UsageError where there is no call.
/// UsageError(value) when no value is in the range.
std::vector<std::int64_t> sweep_values(const SweepRange& range, const std::function<double(std::int64_t)>& bytes_of);

}  // namespace kiln::cli
