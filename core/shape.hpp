#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace kiln {

/// Most dimensions a tensor may have. Inline storage: views are copied on the hot path, which must not allocate.
inline constexpr int kMaxRank = 12;

/// A list of up to kMaxRank extents or strides, in elements.
class Dims {
 public:
  /// Nothing is written but the size: to clear the rest takes a tenth of a small call, three tensors of two lists each.
  Dims() noexcept {}
  Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  /// UsageError(value) when longer than kMaxRank.
  explicit Dims(std::span<const std::int64_t> values);

  int size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::int64_t& operator[](int axis) noexcept { return values_[static_cast<std::size_t>(axis)]; }
  std::int64_t operator[](int axis) const noexcept { return values_[static_cast<std::size_t>(axis)]; }
  const std::int64_t* begin() const noexcept { return values_.data(); }
  const std::int64_t* end() const noexcept { return values_.data() + size_; }
  std::span<const std::int64_t> span() const noexcept { return {values_.data(), static_cast<std::size_t>(size_)}; }
  std::int64_t back() const noexcept { return values_[static_cast<std::size_t>(size_ - 1)]; }
  /// UsageError(value) when there are kMaxRank.
  void push_back(std::int64_t value) {
    if (size_ == kMaxRank) [[unlikely]]
      refuse_one_more();
    values_[static_cast<std::size_t>(size_++)] = value;
  }
  friend bool operator==(const Dims& a, const Dims& b) noexcept {
    if (a.size_ != b.size_) return false;
    for (int axis = 0; axis < a.size_; ++axis)
      if (a[axis] != b[axis]) return false;
    return true;
  }

 private:
  [[noreturn]] static void refuse_one_more();

  std::array<std::int64_t, kMaxRank> values_;  ///< the first size_
  std::int32_t size_ = 0;
};

/// Product of extents; 1 for a scalar. UsageError(value) for a negative extent or one that overflows int64.
std::int64_t num_elements(const Dims& shape);
/// Row-major strides of a dense tensor, in elements.
Dims contiguous_strides(const Dims& shape);
/// NumPy broadcasting. UsageError(value) naming both shapes.
Dims broadcast_shapes(std::span<const Dims> shapes);
/// "(4000, 3000)"; "()" for a scalar.
std::string to_string(const Dims& dims);

}  // namespace kiln
