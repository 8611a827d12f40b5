#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

/// "812 ns", "5.12 us", "5.12 ms", "1.23 s".
std::string format_duration_us(double duration_us);
/// "17 B", "1.5 KiB", "3.2 GiB".
std::string format_bytes(std::int64_t bytes);
/// "1 artifact", "3 artifacts", "2 entries".
std::string format_count(std::int64_t count, std::string_view noun);
/// "45 s", "12 min", "3 h", "9 days".
std::string format_age_s(std::int64_t age_s);
/// The same from a time, in seconds since 1970, to now.
std::string format_age_since(std::int64_t unix_s);
/// "4096", "64K", "512M", "2G", "1T" (powers of 1024; a trailing B or iB is allowed). UsageError(value) naming `what`
/// otherwise.
std::int64_t parse_bytes(std::string_view text, std::string_view what);

}  // namespace kiln
