#pragma once

#include <span>

#include "ops/op_spec.hpp"

namespace kiln::attention {

/// In double, score by score.
void attention_reference(const OpCall& call);

struct AttentionProblem;
/// The same of a problem that was not read from a call of attention; outputs are out and, where it returns it, lse.
void attend_in_double(const AttentionProblem& problem, const TensorView& q, const TensorView& k, const TensorView& v,
                      std::span<const TensorView> outputs);

/// Of an output dtype, for inputs of up to 4: that of a computation whose products are of the inputs' dtype.
Tolerance attention_tolerance(DType out);
/// What is added to that of logarithms of sums, by the queries' dtype: they show that the tensor cores' sums of
/// products of 8 bits keep about 14 bits. Results, of 16 bits then, do not.
Tolerance score_tolerance(DType queries, DType out);

}  // namespace kiln::attention
