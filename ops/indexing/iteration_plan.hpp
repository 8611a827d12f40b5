#pragma once

#include <cstdint>
#include <vector>

#include "core/shape.hpp"
#include "core/tensor.hpp"
#include "ops/common/walk_dim.hpp"
#include "ops/indexing/iteration.hpp"

namespace kiln::indexing {

using IndexingDim = common::WalkDim<ops::kIndexingOperands>;

/// The elements that an op visits, in the fewest dimensions: [0] are a tile's columns, [1] its rows. Dimensions of one
/// element are gone, and those that every operand steps over as over one are one.
struct Elements {
  std::vector<IndexingDim> dims;
  std::int64_t numel = 1;
  std::int64_t extent = 0;  ///< what indices are below
  std::int64_t stride = 0;  ///< of the indexed operand along the indexed dimension

  IndexingDim columns() const { return dims.empty() ? IndexingDim{} : dims[0]; }
  IndexingDim rows() const { return dims.size() < 2 ? IndexingDim{} : dims[1]; }
};

/// Elements along an axis; a tensor without dimensions is one of one element.
inline std::int64_t extent_of(const TensorView& view, int axis) {
  return view.ndim() == 0 ? 1 : view.shape[axis];
}

/// For index_select and gather over out's elements, columns along out's smallest stride. `dim` is an axis of x.
Elements index_select_elements(const TensorView& out, const TensorView& x, const TensorView& index, int dim);
Elements gather_elements(const TensorView& out, const TensorView& x, const TensorView& index, int dim);
/// For scatter_add over index's elements, columns along src's smallest stride. `dim` is an axis of out.
Elements scatter_elements(const TensorView& out, const TensorView& index, const TensorView& src, int dim);
/// For copying x to out, which has its shape.
Elements copy_elements(const TensorView& out, const TensorView& x);

ops::IndexingIteration make_iteration(const Elements& elements, std::int64_t block_m, std::int64_t block_n);
std::int64_t num_programs(const ops::IndexingIteration& iteration);

}  // namespace kiln::indexing
