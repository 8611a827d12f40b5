#pragma once

#include <cstdint>

#include "core/config.hpp"
#include "core/target.hpp"
#include "ops/attention/head_kind.hpp"
#include "ops/attention/paged_call.hpp"

namespace kiln::attention {

/// Of these configs each fits a program of any call of the kind.
ConfigSpace paged_space(const HeadKind& kind, const Target& target);
Config default_paged_tiling(const HeadKind& kind, const PagedCall& call, const Target& target);

/// Parts that each request's keys are taken in: as the call says, or so many that all processors have work. It follows
/// from shapes alone, since lengths are not known here.
std::int64_t paged_splits(const HeadKind& kind, const PagedCall& call, const Config& config, const Target& target);

}  // namespace kiln::attention
