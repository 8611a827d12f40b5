#include "ops/attention/paged_reference.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "ops/attention/paged_call.hpp"
#include "ops/attention/problem.hpp"
#include "ops/attention/reference.hpp"
#include "ops/common/element.hpp"

namespace kiln::attention {
namespace {

/// A request's tokens, [1, length, H, D].
struct GatheredTokens {
  std::vector<std::byte> bytes;
  TensorView view;

  GatheredTokens(const TensorView& cache, kv_cache::PageLayout layout, const std::vector<std::int64_t>& pages,
                 std::int64_t length) {
    const kv_cache::CacheShape shape = kv_cache::cache_shape(cache.shape, layout);
    const bool nhd = layout == kv_cache::PageLayout::nhd;
    const auto size = static_cast<std::size_t>(itemsize_bytes(cache.dtype));
    bytes.resize(static_cast<std::size_t>(length * shape.heads * shape.width) * size + 1);  // has an address
    std::byte* to = bytes.data();
    for (std::int64_t token = 0; token < length; ++token)
      for (std::int64_t head = 0; head < shape.heads; ++head)
        for (std::int64_t i = 0; i < shape.width; ++i, to += size)
          std::memcpy(to,
                      common::address_at(cache, pages[static_cast<std::size_t>(token / shape.page)] * cache.strides[0] +
                                                    token % shape.page * cache.strides[nhd ? 1 : 2] +
                                                    head * cache.strides[nhd ? 2 : 1] + i * cache.strides[3]),
                      size);
    view = dense_view(bytes.data(), cache.dtype, {1, length, shape.heads, shape.width});
  }
};

/// Of dimension 0 the index `i` alone.
TensorView slice_of(const TensorView& view, std::int64_t i) {
  TensorView slice = view;
  slice.data = common::address_at(view, i * view.strides[0]);
  slice.shape[0] = 1;
  return slice;
}

}  // namespace

void paged_reference(const OpCall& call) {
  const PagedProblem problem = paged_problem(call.inputs, call.attributes);
  Attributes attributes;
  for (const char* name : {"causal", "scale", "window", "softcap", "return_lse"})
    attributes.set(name, *call.attributes.find(name));
  attributes.set("layout", std::string("BSHD"));
  const TensorView &table = call.inputs[kBlockTable], &lengths = call.inputs[kLengths];
  for (std::int64_t request = 0; request < problem.batch; ++request) {
    const std::int64_t length = std::clamp<std::int64_t>(
        common::load_at<std::int64_t>(lengths, request * lengths.strides[0]), 0, problem.most_tokens);
    std::vector<std::int64_t> pages;
    for (std::int64_t first = 0; first < length; first += problem.keys.page) {
      const auto entry = static_cast<std::int64_t>(pages.size());
      pages.push_back(std::clamp<std::int64_t>(
          common::load_at<std::int64_t>(table, request * table.strides[0] + entry * table.strides[1]), 0,
          problem.keys.num_blocks - 1));
    }
    const GatheredTokens keys(call.inputs[kKeyCache], problem.layout, pages, length),
        values(call.inputs[kValueCache], problem.layout, pages, length);
    std::vector<TensorView> inputs(kSinks + 1);
    inputs[kQuery] = slice_of(call.inputs[kPagedQuery], request);
    inputs[kKey] = keys.view;
    inputs[kValue] = values.view;
    if (problem.slopes != nullptr)
      inputs[kSlopes] = problem.slopes->ndim() == 2 ? slice_of(*problem.slopes, request) : *problem.slopes;
    if (problem.sinks != nullptr) inputs[kSinks] = *problem.sinks;
    std::vector<TensorView> outputs;
    for (const TensorView& output : call.outputs) outputs.push_back(slice_of(output, request));
    attention_reference({inputs, outputs, attributes});
  }
}

}  // namespace kiln::attention
