#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.hpp"

namespace kiln {

/// How the extents of a call's inputs become a ShapeKey: data that a spec states. An extent that no part names is
/// exact; where several parts name it the last one decides.
///
/// A matmul whose rows are tokens, exact for decode batches: `{{.input = 0, .axis = 0, .bucket = power_of_two,
/// .exact_up_to = 16}}`. An elementwise op, where only the size matters: `{{.bucket = power_of_two}}`.
struct ShapeKeyRule {
  enum class Bucket {
    exact,
    power_of_two,  ///< rounded up to a power of two
    any,           ///< one config for every extent
  };
  struct Part {
    std::optional<int> input = {};  ///< unset: every input
    std::optional<int> axis = {};   ///< negative: from the end; unset: every axis
    Bucket bucket = Bucket::exact;
    std::int64_t exact_up_to = 0;  ///< extents up to this one stay exact
  };
  std::vector<Part> parts;
};

/// The shapes of one call's inputs as far as the choice of a config depends on them.
struct ShapeKey {
  struct Item {
    enum class Kind : std::uint8_t { exact, at_most, any, end_of_input, absent_input };
    Kind kind = Kind::exact;
    std::int64_t extent = 0;  ///< of exact and at_most; 0 otherwise
    friend bool operator==(const Item&, const Item&) = default;
  };
  std::vector<Item> items;  ///< the axes of each input, then end_of_input; absent_input for one that is left out
  friend bool operator==(const ShapeKey&, const ShapeKey&) = default;
};

/// `inputs` in the op's order, nullptr for one that is left out.
ShapeKey shape_key(std::span<const Dims* const> inputs, const ShapeKeyRule& rule = {});

/// "4096x4096, <=1024x*, (), -": exact, at most, any, a scalar, an input that is left out.
std::string to_string(const ShapeKey& key);
/// The inverse. UsageError(value) for malformed text.
ShapeKey parse_shape_key(std::string_view text);

/// How far apart two keys are: the sum over their axes of |log2(extent / other extent)|, so that twice as many rows
/// are as far as half as many. nullopt when ranks or left-out inputs differ, or one takes any extent where the other
/// does not.
std::optional<double> shape_distance(const ShapeKey& a, const ShapeKey& b) noexcept;

}  // namespace kiln
