#include "registry/plan/plan_key.hpp"

#include <bit>
#include <cstring>
#include <type_traits>

#include "core/tensor_map.hpp"
#include "ops/op_spec.hpp"

namespace kiln {
namespace {

/// Folds one word into the state: a 64 x 64 -> 128 bit product, both halves kept, so that every input bit reaches every
/// output bit.
std::uint64_t mix(std::uint64_t state, std::uint64_t word) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(state ^ 0x9e3779b97f4a7c15u) * static_cast<Wide>(word ^ 0xd1b54a32d192ed03u);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64) ^ std::rotl(state, 23);
}

}  // namespace

void PlanKey::spill(std::uint64_t word) {
  if (spilled_.empty()) spilled_.assign(inline_.begin(), inline_.end());
  spilled_.push_back(word);
}

void PlanKey::add_text(std::string_view text) {
  add(text.size());
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    add(word);
  }
  if (at == text.size()) return;
  std::uint64_t rest = 0;  // shifted in: copying so few bytes would be a call
  for (; at < text.size(); ++at) rest = rest << 8 | static_cast<unsigned char>(text[at]);
  add(rest);
}

void PlanKey::add_tensor(const TensorView& view) {
  static_assert(static_cast<int>(DType::bool_) < 64);
  add(static_cast<std::uint64_t>(view.dtype) | static_cast<std::uint64_t>(is_absent(view)) << 6 |
      static_cast<std::uint64_t>(takes_tensor_map(view.data)) << 7 | static_cast<std::uint64_t>(view.device.type) << 8 |
      static_cast<std::uint64_t>(view.shape.size()) << 16 | static_cast<std::uint64_t>(view.strides.size()) << 24 |
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(view.device.index)) << 32);
  for (const std::int64_t extent : view.shape) add(static_cast<std::uint64_t>(extent));
  for (const std::int64_t stride : view.strides) add(static_cast<std::uint64_t>(stride));
}

void PlanKey::add_value(const AttributeValue& value) {
  add(value.index());
  std::visit(
      [this](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::string>) {
          add_text(held);
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          add(held.size());
          for (const std::int64_t element : held) add(static_cast<std::uint64_t>(element));
        } else if constexpr (std::is_same_v<T, double>) {
          add(std::bit_cast<std::uint64_t>(held));
        } else if constexpr (!std::is_same_v<T, std::monostate>) {
          add(static_cast<std::uint64_t>(held));
        }
      },
      value);
}

void PlanKey::encode(std::string_view op, std::span<const TensorView* const> inputs,
                     std::span<const TensorView* const> outputs, const Attributes& attributes, const Config* config,
                     TuningPolicy tuning, Device device, bool overlaps_previous) {
  add_text(op);
  add(inputs.size() | outputs.size() << 16 | static_cast<std::uint64_t>(config != nullptr) << 32 |
      static_cast<std::uint64_t>(overlaps_previous) << 33 | static_cast<std::uint64_t>(tuning) << 40 |
      static_cast<std::uint64_t>(device.type) << 44 |
      static_cast<std::uint64_t>(static_cast<std::uint16_t>(device.index)) << 48);
  if (tuning != TuningPolicy::off) add(detail::tuning_generation());
  for (const TensorView* input : inputs) add_tensor(*input);
  for (const TensorView* output : outputs) add_tensor(*output);
  add(attributes.entries().size());
  for (const auto& [name, value] : attributes.entries()) {
    add_text(name);
    add_value(value);
  }
  if (config != nullptr) {
    add(config->entries().size());
    for (const auto& [name, value] : config->entries()) {
      add_text(name);
      add(static_cast<std::uint64_t>(value));
    }
  }
  // Two chains side by side: each step waits for the product of the one before it.
  const std::span<const std::uint64_t> all = words();
  std::uint64_t even = 0, odd = 0;
  std::size_t i = 0;
  for (; i + 1 < all.size(); i += 2) {
    even = mix(even, all[i]);
    odd = mix(odd, all[i + 1]);
  }
  if (i < all.size()) even = mix(even, all[i]);
  hash_ = mix(even, odd);
}

}  // namespace kiln
