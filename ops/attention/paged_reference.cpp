#include "ops/attention/paged_reference.hpp"

#include <string>
#include <vector>

#include "ops/attention/paged_call.hpp"
#include "ops/attention/problem.hpp"
#include "ops/attention/reference.hpp"

namespace kiln::attention {

void paged_reference(const OpCall& call) {
  const PagedProblem problem = paged_problem(call.inputs, call.attributes);
  Attributes attributes;
  for (const char* name : {"causal", "scale", "window", "softcap", "return_lse"})
    attributes.set(name, *call.attributes.find(name));
  attributes.set("layout", std::string("BSHD"));
  attributes.set("out_dtype", {});
  const PagedTable table = problem.table(call.inputs);
  for (std::int64_t request = 0; request < problem.batch; ++request) {
    const GatheredTokens keys(call.inputs[kKeyCache], problem.layout, table, request),
        values(call.inputs[kValueCache], problem.layout, table, request);
    std::vector<TensorView> inputs(kValueScale + 1);
    inputs[kQuery] = request_of(call.inputs[kPagedQuery], request);
    inputs[kKey] = keys.view;
    inputs[kValue] = values.view;
    if (problem.slopes != nullptr)
      inputs[kSlopes] = problem.slopes->ndim() == 2 ? request_of(*problem.slopes, request) : *problem.slopes;
    if (problem.sinks != nullptr) inputs[kSinks] = *problem.sinks;
    inputs[kKeyScale] = problem.key_scale.of_request(request);
    inputs[kValueScale] = problem.value_scale.of_request(request);
    std::vector<TensorView> outputs;
    for (const TensorView& output : call.outputs) outputs.push_back(request_of(output, request));
    attention_reference({inputs, outputs, attributes});
  }
}

}  // namespace kiln::attention
