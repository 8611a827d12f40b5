#pragma once

#include <memory>
#include <string>

#include "core/target.hpp"
#include "core/tensor.hpp"
#include "ops/op_spec.hpp"
#include "registry/plan/plan.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// Whether configs of an op agree, where their tensors are: one kernel that counts what differs.
///
/// Elements agree within twice the op's tolerance, for each of the two may be off by it. The absolute part is at least
/// as wide as the relative part of the largest finite element, since configs add up in other orders. Integers must be
/// equal, NaN is equal to NaN.
class OutputComparison {
 public:
  /// With `wanted`, which is dense. Compiles what comparing takes: `difference` only launches it. Kiln's own abs, amax,
  /// isclose and sum were the alternative: each was a compile, which waited for processors behind those of candidates.
  OutputComparison(Tensor wanted, Tolerance tolerance, const Target& target, Stream stream);

  /// Empty, or one line that says how many elements of `got`, a dense tensor of the same shape, dtype and device, are
  /// not the wanted ones.
  std::string difference(const Tensor& got) const;

 private:
  std::string count(const TensorView& got) const;

  Tensor wanted_;  ///< flat
  Tensor found_;   ///< how many elements differ, and the bits of the largest finite one as an f64
  Stream stream_;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace kiln
