#include "ops/layout/arrange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "core/errors.hpp"
#include "ops/common/attribute_reader.hpp"

namespace kiln::layout {

TensorView transposed(const TensorView& x, const Attributes& attributes) {
  const int first = axis_of("transpose", "dim0", attributes.get_int("dim0"), x.ndim());
  const int second = axis_of("transpose", "dim1", attributes.get_int("dim1"), x.ndim());
  TensorView view = x;
  if (x.ndim() == 0) return view;
  std::swap(view.shape[first], view.shape[second]);
  std::swap(view.strides[first], view.strides[second]);
  return view;
}

TensorView permuted(const TensorView& x, const Attributes& attributes) {
  const AttributeValue& given = *attributes.find("dims");
  const auto* dims = std::get_if<std::vector<std::int64_t>>(&given);
  if (dims == nullptr)
    throw_type_error(
        fmt::format("op 'permute': attribute 'dims' is {}, expected a list of integers", to_string(given)));
  if (static_cast<int>(dims->size()) != x.ndim())
    throw_value_error(fmt::format(
        "op 'permute': attribute 'dims' is {}, {} of them, but the tensor has {} dimension{}; name each of them once",
        to_string(given), dims->size(), x.ndim(), x.ndim() == 1 ? "" : "s"));
  axes_of("permute", "dims", given, x.ndim());
  TensorView view = x;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const int source = axis_of("permute", "dims", (*dims)[static_cast<std::size_t>(axis)], x.ndim());
    view.shape[axis] = x.shape[source];
    view.strides[axis] = x.strides[source];
  }
  return view;
}

DType copied_dtype(const TensorView& x, const Attributes& attributes) {
  return dtype_of("copy", "dtype", *attributes.find("dtype")).value_or(x.dtype);
}

Concatenation concatenated(std::span<const TensorView> inputs, const Attributes& attributes) {
  const TensorView& first = inputs.front();
  if (first.ndim() == 0)
    throw_value_error("op 'concat': input 0 has no dimensions to join along; give tensors of one dimension or more");
  Concatenation result;
  result.axis = axis_of("concat", "dim", attributes.get_int("dim"), first.ndim());
  result.shape = first.shape;
  std::int64_t extent = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& input = inputs[i];
    if (input.dtype != first.dtype)
      throw_type_error(fmt::format("op 'concat': input {} is {} and input 0 {}; cast one of them: all must agree", i,
                                   name(input.dtype), name(first.dtype)));
    bool matches = input.ndim() == first.ndim();
    for (int axis = 0; matches && axis < first.ndim(); ++axis)
      matches = axis == result.axis || input.shape[axis] == first.shape[axis];
    if (!matches)
      throw_value_error(
          fmt::format("op 'concat': input {} has shape {} and input 0 {}; they may differ in dimension {} only", i,
                      to_string(input.shape), to_string(first.shape), result.axis));
    result.starts.push_back(extent);
    extent += input.shape[result.axis];
  }
  result.shape[result.axis] = extent;
  return result;
}

Slice slice_of(const TensorView& output, const TensorView& input, const Concatenation& parts, std::size_t index) {
  Slice slice{output, parts.starts[index] * output.strides[parts.axis]};
  slice.view.shape[parts.axis] = input.shape[parts.axis];
  return slice;
}

}  // namespace kiln::layout
