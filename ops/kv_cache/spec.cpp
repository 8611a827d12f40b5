#include "ops/kv_cache/spec.hpp"

#include <iterator>

#include "ops/kv_cache/gather_spec.hpp"
#include "ops/kv_cache/paged_spec.hpp"

namespace kiln::kv_cache {

std::vector<OpSpec> kv_cache_specs() {
  std::vector<OpSpec> specs = gather_specs(), paged = paged_specs();
  std::move(paged.begin(), paged.end(), std::back_inserter(specs));
  return specs;
}

}  // namespace kiln::kv_cache
