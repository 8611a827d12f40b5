#pragma once

#include <bitset>
#include <concepts>
#include <cstddef>
#include <span>

#include "core/launch.hpp"
#include "core/tensor.hpp"

namespace kiln {

/// How a caller leaves an optional input out in the middle of a call: a Tensor made of nothing, Tensor{}. Whoever takes
/// a call asks CallInputs::find instead.
inline bool is_absent(const TensorView& view) noexcept {
  return view.data == nullptr && view.ndim() == 0 && !view.device.is_cuda();
}

/// Which inputs of a call are left out.
using LeftOut = std::bitset<kMaxTensors>;

/// The inputs of a call in the order of the spec, for the functions of the spec. An optional one may be none.
class CallInputs {
 public:
  CallInputs() = default;
  /// Those that are left out at the end are not among them, so that specs that know no others may ask for `size`.
  CallInputs(std::span<const TensorView> views, const LeftOut& left_out) : views_(views), left_out_(left_out) {
    while (!views_.empty() && left_out_[views_.size() - 1]) views_ = views_.first(views_.size() - 1);
  }
  /// As callers give them.
  template <typename Views>
    requires(!std::same_as<Views, CallInputs> && std::convertible_to<const Views&, std::span<const TensorView>>)
  CallInputs(const Views& views) : views_(views) {
    for (std::size_t i = 0; i < views_.size() && i < left_out_.size(); ++i) left_out_[i] = is_absent(views_[i]);
  }

  /// nullptr for one that is left out, before one that is given or at the end.
  const TensorView* find(std::size_t i) const noexcept {
    return i < views_.size() && !left_out_[i] ? &views_[i] : nullptr;
  }
  /// One that is not optional, or that `find` found.
  const TensorView& operator[](std::size_t i) const noexcept { return views_[i]; }
  /// Behind these all are left out.
  std::size_t size() const noexcept { return views_.size(); }
  bool empty() const noexcept { return views_.empty(); }
  auto begin() const noexcept { return views_.begin(); }
  auto end() const noexcept { return views_.end(); }
  const LeftOut& left_out() const noexcept { return left_out_; }
  /// For what knows no optional inputs; Tensor{} is in the place of one that is left out.
  operator std::span<const TensorView>() const noexcept { return views_; }

 private:
  std::span<const TensorView> views_;
  LeftOut left_out_;
};

}  // namespace kiln
