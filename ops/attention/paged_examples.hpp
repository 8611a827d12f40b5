#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::attention {

std::vector<Example> paged_examples();
Example random_paged_example(std::mt19937_64& random);
/// Garbage in entries that no length uses; in calls that are not checked also lengths and entries out of range.
void spoil_paged(const OpCall& call, std::mt19937_64& random);
/// Tokens of the requests that there are none of: behind a request's length, or in a page that is none.
SkippedWork skipped_by_paged(const OpCall& call);

}  // namespace kiln::attention
