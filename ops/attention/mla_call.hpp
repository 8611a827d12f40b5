#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/iteration_mla.hpp"
#include "ops/attention/kernel_form.hpp"
#include "ops/attention/pages_call.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

inline constexpr const char* kMlaOp = "mla_decode";

/// The inputs of mla_decode, in their order.
enum MlaInput : std::uint8_t { kLatentQuery, kRotaryQuery, kLatentCache, kMlaTable, kMlaLengths };

/// Numbers of a token's latent vector and of its rotary part that are served.
inline constexpr std::int64_t kMostLatent = 512, kMostRotary = 64;

/// A call of mla_decode, checked and named.
struct MlaProblem {
  std::int64_t batch = 0, queries = 0, heads = 0, latent = 0, rotary = 0;
  TensorView cache;  ///< [blocks, page, 1, latent + rotary], however the call gives it
  std::int64_t num_blocks = 0, page = 0;
  std::int64_t most_tokens = 0;  ///< of a request: what its row of the table has room for
  double scale = 0;
  bool is_causal = false, returns_lse = false, checks_bounds = false;
  std::int64_t num_splits = 0;  ///< 0: chosen

  /// Rows of a request: the queries of all heads share its tokens.
  std::int64_t rows() const { return heads * queries; }
  PagedTable table(const CallInputs& inputs) const;
};

/// UsageError: value for shapes that do not fit each other and attributes out of range; type for dtypes that do not.
MlaProblem mla_problem(const CallInputs& inputs, const Attributes& attributes);
std::vector<TensorMeta> infer_mla(const CallInputs& inputs, const Attributes& attributes);

/// A call as the kernel sees it, in one part.
struct MlaCall : PagesCall {
  MlaProblem problem;
  ops::AttentionForm form;  ///< value_dim is the latent vector's size, head_dim the rotary part's
  ops::MlaIteration iteration;

  /// The number of an input among the call's tensors, outputs first.
  int tensor(MlaInput input) const { return (problem.returns_lse ? 2 : 1) + input; }
};
MlaCall mla_call(const OpCall& call);

}  // namespace kiln::attention
