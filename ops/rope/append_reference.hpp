#pragma once

#include "ops/op_spec.hpp"

namespace kiln::rope {

/// rope's and kv_append's references, one after the other.
void rope_append_reference(const OpCall& call);

}  // namespace kiln::rope
