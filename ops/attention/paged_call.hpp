#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/iteration_paged.hpp"
#include "ops/attention/kernel_form.hpp"
#include "ops/attention/pages_call.hpp"
#include "ops/attention/shared_contract.hpp"
#include "ops/kv_cache/paged_call.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

inline constexpr const char* kPagedOp = "attention_paged";

/// The inputs of attention_paged, in their order.
enum PagedInput : std::uint8_t {
  kPagedQuery,
  kKeyCache,
  kValueCache,
  kBlockTable,
  kLengths,
  kPagedSlopes,
  kPagedSinks,
  kPagedKeyScale,
  kPagedValueScale,
  kPageStarts
};

/// A call of attention_paged, checked and named.
struct PagedProblem : ScoreOptions {
  kv_cache::PageLayout layout = kv_cache::PageLayout::nhd;
  std::int64_t batch = 0, queries = 0, heads = 0, head_dim = 0;
  kv_cache::CacheShape keys = {}, values = {};
  std::int64_t most_tokens = 0;   ///< of a request: what its row of the table, or a list of all pages, has room for
  std::int64_t usual_tokens = 0;  ///< of a request, where all have as many
  bool is_list = false;           ///< the table lists the pages of one request after the other
  bool is_causal = false;
  std::int64_t left = -1, right = -1;  ///< of the window; -1: all keys
  std::int64_t num_splits = 0;         ///< 0: chosen
  bool checks_bounds = false;

  PagedTable table(const CallInputs& inputs) const;
  std::int64_t group() const { return keys.heads == 0 ? 1 : heads / keys.heads; }
  /// Rows of a tile that share a head of the caches.
  std::int64_t rows() const { return group() * queries; }
};

/// UsageError: value for shapes that do not fit each other and attributes out of range; type for dtypes that do not.
PagedProblem paged_problem(const CallInputs& inputs, const Attributes& attributes);
std::vector<TensorMeta> infer_paged(const CallInputs& inputs, const Attributes& attributes);

/// A call as the kernel sees it, in one part.
struct PagedCall : PagesCall {
  PagedProblem problem;
  DType keys = DType::f32, sink = DType::f32;  ///< keys: of the caches
  ops::AttentionForm form;
  ops::PagedAttentionIteration iteration;

  /// The number of an input among the call's tensors, outputs first; -1 where it is not there.
  int tensor(PagedInput input, bool is_there = true) const {
    return is_there ? (problem.returns_lse ? 2 : 1) + input : -1;
  }
};
PagedCall paged_call(const OpCall& call);

}  // namespace kiln::attention
