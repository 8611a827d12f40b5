#include "ops/grid.hpp"

#include <fmt/format.h>

#include <limits>

#include "core/errors.hpp"

namespace kiln {

void check_grid(std::string_view op, std::int64_t programs, const Target& target) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (is_cuda(target) && programs > kMost)
    throw_value_error(
        fmt::format("op '{}': this config takes {} programs, but a GPU's grid holds {}; choose larger blocks", op,
                    programs, kMost));
}

}  // namespace kiln
