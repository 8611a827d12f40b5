#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/op_spec.hpp"
#include "ops/rope/frequency.hpp"

namespace kiln::rope {

inline constexpr const char* kOp = "rope";
inline constexpr std::int64_t kMostRotaryDim = 1024;
inline constexpr double kDefaultBase = 10000;
/// Positions of computed angles are below this.
inline constexpr std::int64_t kMostPositions = std::int64_t{1} << 31;

/// The inputs, in their order.
enum Input : std::uint8_t { kX, kCos, kSin, kPositions };

/// A call of rope, checked and named.
struct RopeProblem {
  std::int64_t tokens = 0, heads = 0, head_dim = 0;  ///< x is [..., tokens, heads, head_dim]
  std::int64_t rotary_dim = 0;
  bool interleaved = false, inverse = false;
  const TensorView* cos = nullptr;  ///< null where the call computes angles
  const TensorView* sin = nullptr;
  const TensorView* positions = nullptr;  ///< null where tokens stand in order
  Frequencies frequencies;                ///< where the call computes angles
  std::int64_t num_positions = 0;         ///< those from 0 to before this one are some

  std::int64_t pairs() const { return rotary_dim / 2; }
  /// A pair's numbers within a head.
  std::int64_t first_of(std::int64_t pair) const { return interleaved ? 2 * pair : pair; }
  std::int64_t second_of(std::int64_t pair) const { return interleaved ? 2 * pair + 1 : pair + pairs(); }
};

/// What is checked: an op, and of its inputs what turns and what says how far.
struct RopeInputs {
  std::string_view op, x_name;
  const TensorView& x;
  const TensorView *cos, *sin, *positions;  ///< null where the call has none
};

/// UsageError: value for shapes that do not fit each other, attributes out of range, and one of cos and sin; type for
/// dtypes that do not.
RopeProblem rope_problem(const RopeInputs& inputs, const Attributes& attributes);
/// Of a call of rope.
RopeProblem rope_problem(const CallInputs& inputs, const Attributes& attributes);

/// The stride of `view`, whose dimensions but for the last `trailing` broadcast to x's dimensions of tokens, along
/// axis `axis` of x; 0 where it has one element there.
std::int64_t token_stride(const TensorView& view, int trailing, const TensorView& x, int axis);

std::vector<TensorMeta> infer(const CallInputs& inputs, const Attributes& attributes);

}  // namespace kiln::rope
