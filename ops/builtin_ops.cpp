#include "ops/builtin_ops.hpp"

#include <utility>

#include "ops/elementwise/spec.hpp"

namespace kiln {

std::vector<OpSpec> builtin_ops() {
  return elementwise::elementwise_specs();
}

}  // namespace kiln
