#include "ops/builtin_ops.hpp"

#include <iterator>
#include <utility>

#include "ops/attention/spec.hpp"
#include "ops/elementwise/spec.hpp"
#include "ops/indexing/spec.hpp"
#include "ops/kv_cache/spec.hpp"
#include "ops/layout/spec.hpp"
#include "ops/linear/spec.hpp"
#include "ops/matmul/spec.hpp"
#include "ops/normalization/spec.hpp"
#include "ops/random/spec.hpp"
#include "ops/reduction/spec.hpp"
#include "ops/rope/spec.hpp"
#include "ops/scan/spec.hpp"

namespace kiln {

std::vector<OpSpec> builtin_ops() {
  std::vector<OpSpec> all;
  for (auto specs :
       {attention::attention_specs, elementwise::elementwise_specs, indexing::indexing_specs, kv_cache::kv_cache_specs,
        layout::layout_specs, linear::linear_specs, matmul::matmul_specs, normalization::normalization_specs,
        random::random_specs, reduction::reduction_specs, rope::rope_specs, scan::scan_specs}) {
    std::vector<OpSpec> family = specs();
    for (OpSpec& spec : family)
      for (Variant& variant : spec.variants) variant.waits_for_previous = true;  // kernels in this folder do
    std::move(family.begin(), family.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace kiln
