#include "ops/attention/form_argument.hpp"

namespace kiln::attention {

// Names every field: one that is added to the struct does not compile here, and one that is named otherwise, or out of
// order, not with the kernel.
StructValue argument_of(const ops::AttentionForm& form) {
  const auto& [head_dim, value_dim, is_dense, has_low, has_high, checks_keys, scales_first, caps, has_mask,
               has_dense_mask, has_slopes, has_sinks, has_query_scale, has_key_scale, has_value_scale, returns_lse] =
      form;
  return {"kiln::ops::AttentionForm",
          {{"head_dim", head_dim},
           {"value_dim", value_dim},
           {"is_dense", is_dense},
           {"has_low", has_low},
           {"has_high", has_high},
           {"checks_keys", checks_keys},
           {"scales_first", scales_first},
           {"caps", caps},
           {"has_mask", has_mask},
           {"has_dense_mask", has_dense_mask},
           {"has_slopes", has_slopes},
           {"has_sinks", has_sinks},
           {"has_query_scale", has_query_scale},
           {"has_key_scale", has_key_scale},
           {"has_value_scale", has_value_scale},
           {"returns_lse", returns_lse}}};
}

}  // namespace kiln::attention
