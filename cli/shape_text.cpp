#include "cli/shape_text.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core/errors.hpp"

namespace kiln::cli {

Dims parse_shape(std::string_view text) {
  const auto fail = [&](std::string_view why) {
    throw_value_error(
        fmt::format("--shape '{}': {}; write extents like 4096x4096 or 7, or 'scalar' for no dimensions", text, why));
  };
  if (text == "scalar" || text == "()") return {};
  if (text.find('x') != std::string_view::npos && text.find(',') != std::string_view::npos)
    fail("'x' and ',' both separate extents; repeat --shape for each input");
  std::string_view rest = text;
  if (rest.size() >= 2 && rest.front() == '(' && rest.back() == ')') rest = rest.substr(1, rest.size() - 2);
  Dims shape;
  while (true) {
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    std::int64_t extent = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
    if (error == std::errc::result_out_of_range) fail("an extent is beyond 64 bits");
    if (error != std::errc()) fail("an extent is missing or not a number");
    if (extent < 0) fail(fmt::format("the extent {} is negative", extent));
    if (shape.size() == kMaxRank) fail(fmt::format("more than {} dimensions", kMaxRank));
    shape.push_back(extent);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty()) break;
    if (rest.front() != 'x' && rest.front() != ',') fail(fmt::format("'{}' does not separate extents", rest.front()));
    rest.remove_prefix(1);
    if (rest.empty() && text.front() == '(') break;  // Python's "(7,)"
  }
  num_elements(shape);  // refuses a product beyond 64 bits
  return shape;
}

}  // namespace kiln::cli
