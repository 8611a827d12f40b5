#include "registry/dispatch/pack_weight.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "ops/linear/packing.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "runtime/memory.hpp"

namespace kiln {

Tensor pack_weight(const Tensor& weight, std::optional<Stream> stream) {
  const TensorView& view = weight.view();
  if (view.ndim() != 2)
    throw_value_error(
        fmt::format("pack_weight: the weight has shape {}, expected 2 dimensions, (out, in)", to_string(view.shape)));
  if (!linear::needs_packing(view)) return weight;
  const Dims strides = linear::packed_strides(view);
  const Stream on = stream.value_or(Stream::default_of(view.device));
  const Tensor memory = empty({view.shape[0], strides[0]}, view.dtype, on);
  TensorView rows = memory.view();
  rows.shape = view.shape;
  rows.strides = strides;
  const Tensor packed(rows, memory.owner());
  return dispatch_gpu_op("copy", {weight}, {}, {.outputs = {&packed, 1}, .stream = on});
}

}  // namespace kiln
