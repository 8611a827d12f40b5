#include "ops/attention/pages_call.hpp"

#include "ops/kv_cache/paged_check.hpp"

namespace kiln::attention {
namespace {

TensorView without_data(TensorView view) {
  view.data = nullptr;
  return view;
}

}  // namespace

PagesCall::PagesCall(const OpCall& call, std::size_t cache, const PagedTable& table)
    : dtype(call.inputs[0].dtype),
      pages(table),
      cache_shape(call.inputs[cache].shape),
      out(without_data(call.outputs[0])),
      returns_lse(call.outputs.size() > 1),
      processors(call.processors) {
  pages.table.data = pages.lengths.data = nullptr;
  if (pages.starts.has_value()) pages.starts->data = nullptr;
  if (returns_lse) lse = without_data(call.outputs[1]);
}

void add_bounds_check(const char* op, const PagesCall& call, const PagesInputs& inputs, const Target& target,
                      LaunchPlan& plan) {
  const PagedTable& pages = call.pages;
  kv_cache::TableCheck check{.op = op,
                             .cache = inputs.cache,
                             .room = "a",
                             .iteration = {},
                             .table_tensor = inputs.table_tensor,
                             .lengths_tensor = inputs.lengths_tensor,
                             .table = pages.table.dtype,
                             .lengths = pages.lengths.dtype,
                             .table_shape = pages.table.shape,
                             .cache_shape = call.cache_shape};
  check.iteration.requests = pages.batch;
  check.iteration.most_tokens = pages.most_tokens;
  check.iteration.page = pages.page;
  check.iteration.num_blocks = pages.num_blocks;
  check.iteration.table_strides[0] = step(pages.table, 0);
  check.iteration.table_strides[1] = step(pages.table, 1);
  check.iteration.length_stride = step(pages.lengths, 0);
  kv_cache::add_table_check(plan, check, target);
}

}  // namespace kiln::attention
