#include "registry/inspection/random_call_inputs.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "registry/inspection/random_input.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "registry/tuning/selected_entries.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

/// Row-major order of `source`, which is dense, into a view with any strides.
void scatter(const TensorView& source, const TensorView& destination) {
  const auto item_bytes = static_cast<std::size_t>(itemsize_bytes(source.dtype));
  const std::int64_t count = source.numel();
  const auto* from = static_cast<const std::byte*>(source.data);
  Dims index = source.shape;
  for (int axis = 0; axis < index.size(); ++axis) index[axis] = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < index.size(); ++axis) offset += index[axis] * destination.strides[axis];
    std::memcpy(static_cast<std::byte*>(destination.data) + offset * static_cast<std::int64_t>(item_bytes),
                from + static_cast<std::size_t>(i) * item_bytes, item_bytes);
    for (int axis = index.size() - 1; axis >= 0 && ++index[axis] == source.shape[axis]; --axis) index[axis] = 0;
  }
}

/// One element for each that there is in memory: all that a dimension was expanded to is one.
TensorView each_once(TensorView view) {
  for (int axis = 0; axis < view.ndim(); ++axis)
    if (view.strides[axis] == 0) view.shape[axis] = std::min<std::int64_t>(view.shape[axis], 1);
  return view;
}

void fill_numbers(const TensorView& input, InputRange range, std::uint64_t seed, std::uint64_t stream) {
  if (input.is_contiguous()) return fill_random(input, range, seed, stream);
  const TensorView view = each_once(input);
  const Tensor dense = empty(view.shape, view.dtype, Device::cpu());
  fill_random(dense, range, seed, stream);
  scatter(dense, view);
}

}  // namespace

std::vector<Tensor> fill_selecting_inputs(const Call& call, std::uint64_t seed, const RandomContents& contents) {
  std::mt19937_64 random(seed);
  const OpCall seen = call.seen_by_spec();
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (const TensorView* const input = call.input(i); input != nullptr && call.input_spec(i).selects)
      draw_entries(*input, call.input_spec(i).selects(seen), random);
  if (contents.spoiled && call.spec->spoil_inputs) call.spec->spoil_inputs(seen, random);
  return point_to_new_memory(call, contents.addressed);
}

std::vector<Tensor> fill_random_inputs(const OpSpec& spec, const CallInputs& inputs, const Attributes& attributes,
                                       std::uint64_t seed, const RandomContents& contents) {
  const Call call = validated_call(spec, inputs, attributes, {.seen_on = Device::cpu()});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorView* const input = call.input(i);
    if (input == nullptr || call.input_spec(i).selects || call.input_spec(i).points_to) continue;
    const bool is_integer = !is_floating(input->dtype) && !spec.integer_ranges.empty();
    const std::vector<InputRange>& stated = is_integer ? spec.integer_ranges : spec.input_ranges;
    const InputRange range = i < contents.ranges.size() ? contents.ranges[i]
                             : i < stated.size()        ? stated[i]
                                                        : InputRange{};
    fill_numbers(*input, range, seed, i);
  }
  return fill_selecting_inputs(call, seed, contents);
}

}  // namespace kiln
