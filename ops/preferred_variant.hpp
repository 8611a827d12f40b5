#pragma once

#include "ops/op_spec.hpp"

namespace kiln {

/// The variant that makes a call: of those that serve it the first, or if that one says how fast it is the fastest of
/// those that do. A `given` config that does not name tunables of this one is for the first that serves the call and
/// has them, if there is one. Null where none serves the call.
const Variant* preferred_variant(const OpSpec& spec, const OpCall& call, const Target& target,
                                 const Config* given = nullptr);

}  // namespace kiln
