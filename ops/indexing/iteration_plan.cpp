#include "ops/indexing/iteration_plan.hpp"

#include <algorithm>
#include <utility>

#include "ops/common/grid.hpp"

namespace kiln::indexing {
namespace {

constexpr int kOut = 0, kSrc = 2;  // see IndexingIteration

/// Stride along an axis, as extent_of() has its extent.
std::int64_t stride_of(const TensorView& view, int axis) {
  return view.ndim() == 0 ? 0 : view.strides[axis];
}

/// Sorts by the strides of `primary`, merges, and puts the longest of the other dimensions second: a tile over a
/// dimension of three elements would be mostly empty.
Elements collapse(std::vector<IndexingDim> dims, int primary, std::int64_t extent, std::int64_t stride) {
  Elements elements;
  elements.extent = extent;
  elements.stride = stride;
  for (const IndexingDim& dim : dims) elements.numel *= dim.extent;
  std::erase_if(dims, [](const IndexingDim& dim) { return dim.extent == 1; });
  std::reverse(dims.begin(), dims.end());
  common::sort_innermost_first(dims, [key = static_cast<std::size_t>(primary)](const IndexingDim& dim) {
    return common::magnitude(dim.strides[key]);
  });
  elements.dims = common::merged(dims);
  if (elements.dims.size() > 2) {
    const auto longest = std::max_element(elements.dims.begin() + 1, elements.dims.end(),
                                          [](const auto& a, const auto& b) { return a.extent < b.extent; });
    std::iter_swap(elements.dims.begin() + 1, longest);
  }
  return elements;
}

/// Dimensions of `shape`, where `strides(axis)` are the operands' along one of them.
template <typename Strides>
std::vector<IndexingDim> make_dims(const Dims& shape, Strides strides) {
  std::vector<IndexingDim> dims;
  for (int axis = 0; axis < shape.size(); ++axis) dims.push_back({shape[axis], strides(axis)});
  return dims;
}

}  // namespace

Elements index_select_elements(const TensorView& out, const TensorView& x, const TensorView& index, int dim) {
  auto dims = make_dims(out.shape, [&](int axis) {
    return std::array{out.strides[axis], axis == dim ? stride_of(index, 0) : 0, axis == dim ? 0 : stride_of(x, axis)};
  });
  return collapse(std::move(dims), kOut, extent_of(x, dim), stride_of(x, dim));
}

Elements gather_elements(const TensorView& out, const TensorView& x, const TensorView& index, int dim) {
  auto dims = make_dims(out.shape, [&](int axis) {
    return std::array{out.strides[axis], stride_of(index, axis), axis == dim ? 0 : stride_of(x, axis)};
  });
  return collapse(std::move(dims), kOut, extent_of(x, dim), stride_of(x, dim));
}

Elements scatter_elements(const TensorView& out, const TensorView& index, const TensorView& src, int dim) {
  auto dims = make_dims(index.shape, [&](int axis) {
    return std::array{axis == dim ? 0 : stride_of(out, axis), index.strides[axis], stride_of(src, axis)};
  });
  return collapse(std::move(dims), kSrc, extent_of(out, dim), stride_of(out, dim));
}

Elements copy_elements(const TensorView& out, const TensorView& x) {
  auto dims =
      make_dims(out.shape, [&](int axis) { return std::array{out.strides[axis], x.strides[axis], std::int64_t{0}}; });
  return collapse(std::move(dims), kOut, 0, 0);
}

ops::IndexingIteration make_iteration(const Elements& elements, std::int64_t block_m, std::int64_t block_n) {
  const IndexingDim columns = elements.columns(), rows = elements.rows();
  ops::IndexingIteration iteration{};
  iteration.columns = columns.extent;
  iteration.rows = rows.extent;
  iteration.column_blocks = ceil_div(columns.extent, block_n);
  iteration.row_blocks = ceil_div(rows.extent, block_m);
  iteration.extent = elements.extent;
  iteration.stride = elements.stride;
  iteration.num_outer_dims = std::max(0, static_cast<int>(elements.dims.size()) - 2);
  for (std::size_t o = 0; o < ops::kIndexingOperands; ++o) {
    iteration.column_strides[o] = columns.strides[o];
    iteration.row_strides[o] = rows.strides[o];
    for (int d = 0; d < iteration.num_outer_dims; ++d)
      iteration.outer_strides[o][d] = elements.dims[static_cast<std::size_t>(d) + 2].strides[o];
  }
  for (int d = 0; d < iteration.num_outer_dims; ++d)
    iteration.outer_extents[d] = elements.dims[static_cast<std::size_t>(d) + 2].extent;
  return iteration;
}

std::int64_t num_programs(const ops::IndexingIteration& iteration) {
  std::int64_t programs = iteration.column_blocks * iteration.row_blocks;
  for (int d = 0; d < iteration.num_outer_dims; ++d) programs *= iteration.outer_extents[d];
  return programs;
}

}  // namespace kiln::indexing
