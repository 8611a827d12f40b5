#include "ops/attention/head_scales.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/errors.hpp"
#include "ops/attention/strides.hpp"
#include "ops/common/element.hpp"

namespace kiln::attention {

HeadScale::HeadScale(std::string_view op, const CallInputs& inputs, std::size_t input, std::string_view name,
                     std::int64_t requests, std::int64_t key_heads)
    : view_(inputs.find(input)) {
  if (view_ == nullptr) return;
  const Dims all = {requests, key_heads};
  bool fits = view_->ndim() <= 2;
  for (int from_end = 1; fits && from_end <= view_->ndim(); ++from_end) {
    const std::int64_t extent = view_->shape[view_->ndim() - from_end];
    fits = extent == 1 || extent == all[2 - from_end];
  }
  if (!fits)
    throw_value_error(
        fmt::format("op '{}': input '{}' has shape {}, which does not broadcast to {}, [requests, heads of keys]", op,
                    name, to_string(view_->shape), to_string(all)));
}

ops::HeadScaleStrides HeadScale::strides() const {
  if (view_ == nullptr) return {};
  const int rank = view_->ndim();
  return {rank == 2 ? step(*view_, 0) : 0, rank > 0 ? step(*view_, rank - 1) : 0};
}

double HeadScale::at(std::int64_t request, std::int64_t key_head) const {
  if (view_ == nullptr) return 1;
  const ops::HeadScaleStrides along = strides();
  return common::load_at<double>(*view_, request * along.request + key_head * along.head);
}

TensorView HeadScale::of_request(std::int64_t request) const {
  if (view_ == nullptr) return {};
  TensorView own = *view_;
  if (own.ndim() < 2) return own;
  own.data = common::address_at(own, request * step(own, 0));
  own.shape[0] = 1;
  return own;
}

InputSpec head_scale_spec(std::string name, std::string_view scaled, std::string_view shape) {
  InputSpec input{std::move(name), fmt::format("broadcasts to {}, f32: {} are multiplied by it", shape, scaled), true};
  input.dtypes = {DType::f32};
  return input;
}

}  // namespace kiln::attention
