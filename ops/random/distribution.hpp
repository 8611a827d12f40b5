#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/attributes.hpp"
#include "core/dtype.hpp"
#include "core/shape.hpp"
#include "ops/random/iteration.hpp"

namespace kiln::random {

enum class Kind { uniform, normal, randint, bernoulli, dropout };

std::string_view op_name(Kind kind);

/// The dtypes that the op makes (dropout: takes).
std::vector<DType> dtypes_of(Kind kind);

/// A call's attributes as what is drawn. Block i of Philox, of four 32-bit words, is that of counter offset + i.
struct Draw {
  Kind kind = Kind::uniform;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  int elements_per_block = 4;  ///< 4: element j takes word j; 2: words 2 j and 2 j + 1, the lower ones first
  DType compute = DType::f32;  ///< of the float distributions
  ops::Distribution parameters{};
};

/// For outputs of `dtype`. UsageError(value) for a seed, offset, probability or bound out of its range,
/// UsageError(type) for a dtype that the op does not make.
Draw resolve_draw(Kind kind, DType dtype, const Attributes& attributes);

/// The attribute `size`. UsageError(value) for a negative extent, more than kMaxRank of them or a product beyond 64
/// bits.
Dims size_of(Kind kind, const Attributes& attributes);

}  // namespace kiln::random
