#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "ops/attention/head_scales.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

// What the ops of this family take alike. Each check throws UsageError (value, or type for dtypes), naming `op`.

inline constexpr std::int64_t kMostHeadDim = 256;

AttributeSpec scale_spec();
AttributeSpec window_spec();
AttributeSpec softcap_spec();
AttributeSpec return_lse_spec();
/// Optional ones; `shape` says what other ops than attention take.
InputSpec slopes_spec(std::string_view batch);
InputSpec sinks_spec();

/// Attribute 'window': keys to the left and to the right; -1: all.
std::pair<std::int64_t, std::int64_t> window_of(std::string_view op, const Attributes& attributes);

/// What a call says of scores, in each op of the family.
struct ScoreOptions {
  double scale = 0;
  double softcap = 0;  ///< 0: none
  bool returns_lse = false;
  const TensorView* slopes = nullptr;  ///< of ALiBi; null where the call has none, as sinks
  const TensorView* sinks = nullptr;
  HeadScale query_scale, key_scale, value_scale;
};
/// An input that an op may have none of.
struct NamedInput {
  std::size_t number = kMaxTensors;
  std::string_view name;
};
/// Extents that they are held against, and which inputs slopes, sinks and scales are. Input 0 is q.
struct ScoreShape {
  std::int64_t batch, heads, key_heads, head_dim;
  std::size_t slopes, sinks;
  NamedInput query_scale = {}, key_scale = {}, value_scale = {};
};
ScoreOptions score_options(std::string_view op, const CallInputs& inputs, const Attributes& attributes,
                           const ScoreShape& shape);

/// Attribute `name`, a number that stays finite in f32; 0 where f32 has none but that.
double number_of_f32(std::string_view op, const Attributes& attributes, std::string_view name);

void check_head_dim(std::string_view op, std::string_view name, std::int64_t dim);
/// An extent of input `name` that is to be as that of input `other`.
void check_extent(std::string_view op, std::string_view name, std::string_view what, std::int64_t extent,
                  std::string_view other, std::int64_t expected);
/// Query heads are a multiple of those of `keys`, an input.
void check_groups(std::string_view op, std::string_view keys, std::int64_t heads, std::int64_t key_heads);

}  // namespace kiln::attention
