#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ops/attention/iteration.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

/// What numbers of q, k or v stand for: themselves times an input of f32 that broadcasts to [requests, heads of keys].
class HeadScale {
 public:
  HeadScale() = default;
  /// Of a call that may leave the input out. UsageError(value), naming `op` and the input, for a shape that does not
  /// broadcast.
  HeadScale(std::string_view op, const CallInputs& inputs, std::size_t input, std::string_view name,
            std::int64_t requests, std::int64_t key_heads);

  bool is_there() const { return view_ != nullptr; }
  ops::HeadScaleStrides strides() const;
  /// 1 where the call has none. Of tensors in the host's memory.
  double at(std::int64_t request, std::int64_t key_head) const;
  /// `request`'s alone.
  TensorView of_request(std::int64_t request) const;

 private:
  const TensorView* view_ = nullptr;
};

InputSpec head_scale_spec(std::string name, std::string_view scaled, std::string_view shape);

}  // namespace kiln::attention
