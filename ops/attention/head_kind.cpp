#include "ops/attention/head_kind.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::attention {

std::string HeadKind::name() const {
  return fmt::format("{}_{}", is_float ? "float" : "half", most_dim);
}

bool HeadKind::serves(const ops::AttentionForm& form, DType dtype) const {
  const std::int64_t dim = std::max({form.padded_head_dim(), form.padded_value_dim(), 64});
  return dim == most_dim && (dtype == DType::f32) == is_float;
}

}  // namespace kiln::attention
