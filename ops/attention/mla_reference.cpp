#include "ops/attention/mla_reference.hpp"

#include <cstddef>
#include <cstring>
#include <vector>

#include "ops/attention/mla_call.hpp"
#include "ops/attention/problem.hpp"
#include "ops/attention/reference.hpp"
#include "ops/common/element.hpp"

namespace kiln::attention {
namespace {

/// A request's queries with both parts side by side, [1, Sq, H, latent + rotary].
struct WholeQueries {
  std::vector<std::byte> bytes;
  TensorView view;

  WholeQueries(const MlaProblem& problem, const CallInputs& inputs, std::int64_t request) {
    const TensorView parts[] = {request_of(inputs[kLatentQuery], request), request_of(inputs[kRotaryQuery], request)};
    const auto size = static_cast<std::size_t>(itemsize_bytes(parts[0].dtype));
    const std::int64_t width = problem.latent + problem.rotary;
    bytes.resize(static_cast<std::size_t>(problem.rows() * width) * size + 1);  // has an address
    std::byte* to = bytes.data();
    for (std::int64_t query = 0; query < problem.queries; ++query)
      for (std::int64_t head = 0; head < problem.heads; ++head)
        for (const TensorView& part : parts)
          for (std::int64_t i = 0; i < part.shape[3]; ++i, to += size)
            std::memcpy(
                to, common::address_at(part, query * part.strides[1] + head * part.strides[2] + i * part.strides[3]),
                size);
    view = dense_view(bytes.data(), parts[0].dtype, {1, problem.queries, problem.heads, width});
  }
};

}  // namespace

void mla_reference(const OpCall& call) {
  const MlaProblem problem = mla_problem(call.inputs, call.attributes);
  const PagedTable table = problem.table(call.inputs);
  AttentionProblem each;
  each.batch = each.key_heads = 1;
  each.heads = problem.heads;
  each.queries = problem.queries;
  each.head_dim = problem.latent + problem.rotary;
  each.value_dim = problem.latent;
  each.scale = problem.scale;
  each.returns_lse = problem.returns_lse;
  for (std::int64_t request = 0; request < problem.batch; ++request) {
    const WholeQueries queries(problem, call.inputs, request);
    const GatheredTokens keys(problem.cache, kv_cache::PageLayout::nhd, table, request);
    TensorView values = keys.view;  // of each token the first numbers
    values.shape[3] = problem.latent;
    each.keys = keys.view.shape[1];
    each.diagonal = each.keys - each.queries;
    if (problem.is_causal) each.high = each.diagonal;
    std::vector<TensorView> outputs;
    for (const TensorView& output : call.outputs) outputs.push_back(request_of(output, request));
    attend_in_double(each, queries.view, keys.view, values, outputs);
  }
}

}  // namespace kiln::attention
