#pragma once

#include "core/config.hpp"
#include "core/target.hpp"
#include "ops/attention/block_times.hpp"
#include "ops/attention/head_kind.hpp"
#include "ops/attention/kernel_form.hpp"

namespace kiln::attention {

/// Whether products are multiplied by wgmma.
bool has_wgmma(const Target& target);
/// Of these configs each fits a program of any call of the kind.
ConfigSpace attention_space(const HeadKind& kind, const Target& target);
Config default_tiling(const HeadKind& kind, const ops::AttentionForm& form, const BlockWork& work,
                      const Target& target);

}  // namespace kiln::attention
