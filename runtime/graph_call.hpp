#pragma once

#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace kiln {

/// One call that a graph holds, as it was recorded or last updated.
struct GraphCall {
  std::string op;      ///< as dispatched; "copy", "memset_bytes" and "graph" for work that is no op's
  std::string config;  ///< "variant tiled, BLOCK=1024"; empty for work that is no op's
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;  ///< memory that is written; inputs which the op changes are inputs
};

/// "add(f32 (4, 3) on cpu, f32 (4, 3) on cpu) -> f32 (4, 3) on cpu [variant contiguous, BLOCK=1024]".
std::string to_string(const GraphCall& call);

}  // namespace kiln
