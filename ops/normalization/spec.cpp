#include "ops/normalization/spec.hpp"

#include <iterator>
#include <utility>

#include "ops/normalization/norm.hpp"
#include "ops/normalization/softmax.hpp"

namespace kiln::normalization {

std::vector<OpSpec> normalization_specs() {
  const KernelSource source = embedded_source("ops/normalization/kernel.hpp");
  std::vector<OpSpec> specs = softmax_specs(source);
  std::vector<OpSpec> norms = norm_specs(source);
  std::move(norms.begin(), norms.end(), std::back_inserter(specs));
  return specs;
}

}  // namespace kiln::normalization
