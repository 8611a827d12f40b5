#pragma once

#include "ops/attention/kernel_form.hpp"
#include "ops/attention/shared_contract.hpp"
#include "ops/attention/strides.hpp"

namespace kiln::attention {

/// What kernels of the ops over scores are told alike: what there is of ScoreOptions, but for masks.
inline void set_form(const ScoreOptions& options, ops::AttentionForm& form) {
  form.caps = options.softcap > 0;
  form.has_slopes = options.slopes != nullptr;
  form.has_sinks = options.sinks != nullptr;
  form.has_query_scale = options.query_scale.is_there();
  form.has_key_scale = options.key_scale.is_there();
  form.has_value_scale = options.value_scale.is_there();
  form.returns_lse = options.returns_lse;
  // A head's scale may turn scores around, or make them 0.
  form.scales_first =
      form.caps || form.has_slopes || form.has_query_scale || form.has_key_scale || !(options.scale > 0);
}

/// Numbers and strides of it, in an AttentionIteration or a PagedAttentionIteration.
template <typename Iteration>
void set_scores(const ScoreOptions& options, Iteration& it) {
  it.scale = static_cast<float>(options.scale);
  it.softcap = static_cast<float>(options.softcap);
  if (options.slopes != nullptr) {
    it.slope_batch = options.slopes->ndim() == 2 ? step(*options.slopes, 0) : 0;
    it.slope_head = step(*options.slopes, options.slopes->ndim() - 1);
  }
  if (options.sinks != nullptr) it.sink_head = step(*options.sinks, 0);
  it.q_scale = options.query_scale.strides();
  it.k_scale = options.key_scale.strides();
  it.v_scale = options.value_scale.strides();
}

}  // namespace kiln::attention
