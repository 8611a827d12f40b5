#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/attributes.hpp"
#include "core/config.hpp"
#include "core/tensor.hpp"
#include "registry/plan/tuning_policy.hpp"

namespace kiln {

/// Everything a plan depends on, as words: op, dtypes, devices, shapes, strides, attributes, config or where it comes
/// from, and the state of what was tuned; of addresses only
/// whether a tensor map can start there (core/tensor_map.hpp). Built on the stack for every dispatch; equal words mean
/// the same plan. Doubles go in by their bits, so -0.0 and 0.0 (or a NaN) are keys of their own.
class PlanKey {
 public:
  PlanKey() noexcept {}  // not defaulted: the inline words stay uninitialised
  PlanKey(const PlanKey&) = delete;
  PlanKey& operator=(const PlanKey&) = delete;

  /// `outputs` is empty when they are to be allocated; `config` is null when it is to be chosen, as `tuning` says;
  /// `device` is the call's, which no tensor names where there are no inputs; `overlaps_previous`: whether its kernels
  /// are made for dependent launches.
  void encode(std::string_view op, std::span<const TensorView* const> inputs,
              std::span<const TensorView* const> outputs, const Attributes& attributes, const Config* config,
              TuningPolicy tuning = TuningPolicy::off, Device device = Device::cpu(), bool overlaps_previous = false);

  std::span<const std::uint64_t> words() const noexcept {
    return spilled_.empty() ? std::span<const std::uint64_t>(inline_.data(), size_)
                            : std::span<const std::uint64_t>(spilled_);
  }
  std::uint64_t hash() const noexcept { return hash_; }

 private:
  /// A call with three 4-d tensors takes about 35 words; what does not fit goes to the heap.
  static constexpr std::size_t kInlineWords = 256;

  void add(std::uint64_t word) {
    if (size_ < kInlineWords)
      inline_[size_++] = word;
    else
      spill(word);
  }
  void add_text(std::string_view text);
  void add_tensor(const TensorView& view);
  void add_value(const AttributeValue& value);
  void spill(std::uint64_t word);

  std::array<std::uint64_t, kInlineWords> inline_;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> spilled_;
  std::uint64_t hash_ = 0;
};

}  // namespace kiln
