#include "registry/random_call_inputs.hpp"

#include <cstring>
#include <random>
#include <vector>

#include "registry/random_input.hpp"
#include "registry/validation.hpp"
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

}  // namespace

void fill_random_inputs(const OpSpec& spec, std::span<const TensorView> inputs, const Attributes& attributes,
                        std::uint64_t seed, std::span<const InputRange> ranges) {
  const Attributes complete = complete_attributes(spec, attributes);
  std::vector<const TensorView*> pointers;
  for (const TensorView& view : inputs) pointers.push_back(&view);
  check_inputs(spec, pointers);
  spec.infer(inputs, complete);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_absent(inputs[i])) continue;
    const InputRange range = i < ranges.size()              ? ranges[i]
                             : i < spec.input_ranges.size() ? spec.input_ranges[i]
                                                            : InputRange{};
    if (inputs[i].is_contiguous()) {
      fill_random(inputs[i], range, seed, i);
      continue;
    }
    const Tensor dense = empty(inputs[i].shape, inputs[i].dtype, Device::cpu());
    fill_random(dense, range, seed, i);
    scatter(dense, inputs[i]);
  }
  if (!spec.fill_inputs) return;
  std::mt19937_64 random(seed);
  spec.fill_inputs({inputs, {}, complete}, random);
}

}  // namespace kiln
