#include "ops/attention/head_kind.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::attention {

std::string HeadKind::name() const {
  return fmt::format("{}{}_{}", is_float ? "float" : "half", has_bytes ? "_byte" : "", most_dim);
}

std::string HeadKind::doc() const {
  return fmt::format("heads of up to {} numbers of {}{}", most_dim, is_float ? "f32" : "16 bits",
                     has_bytes ? ", keys and values of 8" : "");
}

bool HeadKind::serves(const ops::AttentionForm& form, DType query, DType key) const {
  const std::int64_t dim = std::max({form.padded_head_dim(), form.padded_value_dim(), 64});
  return dim == most_dim && (query == DType::f32) == is_float && is_fp8(key) == has_bytes;
}

}  // namespace kiln::attention
