#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/common/call_parser.hpp"
#include "ops/kv_cache/iteration_paged.hpp"
#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

/// How a block's tokens and heads lie: [blocks, page, H, D] or [blocks, H, page, D].
enum class PageLayout { nhd, hnd };

struct CacheShape {
  std::int64_t num_blocks, page, heads, width;
};

/// Attribute 'layout'. UsageError(value) for anything but "NHD" and "HND".
PageLayout page_layout(std::string_view op, const Attributes& attributes);
AttributeSpec layout_attribute();
AttributeSpec check_bounds_attribute(const std::string& what);
/// "[blocks, page, H, D]", for messages.
std::string_view shape_text(PageLayout layout);

/// Reads the shape of a cache, which has four dimensions.
CacheShape cache_shape(const Dims& shape, PageLayout layout);
/// Strides in elements; 0 where there is only one of what they step over.
ops::PagedCache paged_cache(const TensorView& cache, PageLayout layout);
/// A stride in elements, 0 along a dimension of one element.
std::int64_t step(const TensorView& view, int axis);
/// That of the last dimension, 1 along a dimension of one element.
std::int64_t element_step(const TensorView& view);

/// UsageError(value) naming op, input and shape for another number of dimensions; `expected` says which they are.
void check_rank(std::string_view op, std::string_view name, const TensorView& view, int rank,
                std::string_view expected);

/// kv_gather_paged: inputs cache, block_table, seq_lens.
std::vector<TensorMeta> infer_paged_gather(std::span<const TensorView> inputs, const Attributes& attributes);

/// What kv_gather_paged does.
struct PagedGatherCall {
  ops::PagedGatherIteration iteration;  ///< in elements, `parts` left open
  DType dtype = DType::f32, table = DType::i64, lengths = DType::i64;
  std::int64_t requests = 0;
  Dims cache_shape, table_shape;
  bool check_bounds = false;
};
PagedGatherCall paged_gather_call(const OpCall& call);
using PagedGatherParser = common::CallParser<PagedGatherCall>;

}  // namespace kiln::kv_cache
