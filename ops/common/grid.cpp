#include "ops/common/grid.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"

namespace kiln {

void check_grid(std::string_view op, std::int64_t programs, const Target& target) {
  if (is_cuda(target) && programs > kMostGridPrograms)
    throw_value_error(
        fmt::format("op '{}': this config takes {} programs, but a GPU's grid holds {}; choose larger blocks", op,
                    programs, kMostGridPrograms));
}

}  // namespace kiln
