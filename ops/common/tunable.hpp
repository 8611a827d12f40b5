#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "core/config.hpp"

namespace kiln::common {

/// The tunable of an array's values, which a choice of defaults goes through too.
template <std::size_t kCount>
Tunable tunable(std::string name, const std::int64_t (&values)[kCount]) {
  return {std::move(name), {std::begin(values), std::end(values)}};
}

}  // namespace kiln::common
