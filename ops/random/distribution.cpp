#include "ops/random/distribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/errors.hpp"
#include "ops/common/attribute_reader.hpp"

namespace kiln::random {
namespace {

/// From here on a 32-bit word is too coarse: randint takes 64 bits for an element.
constexpr std::uint64_t kMostNarrowRange = std::uint64_t{1} << 16;

std::uint64_t natural(Kind kind, const Attributes& attributes, std::string_view name) {
  const AttributeValue& value = *attributes.find(name);
  if (const auto* integer = std::get_if<std::int64_t>(&value); integer != nullptr && *integer < 0)
    throw_value_error(fmt::format("op '{}': attribute '{}' is {}, expected 0 to {}", op_name(kind), name, *integer,
                                  std::numeric_limits<std::uint64_t>::max()));
  return attributes.get_unsigned(name);
}

/// p in units of 2^-32.
std::uint64_t probability_bits(Kind kind, const Attributes& attributes) {
  const double p = attributes.get_double("p");
  if (!(p >= 0 && p <= 1))
    throw_value_error(
        fmt::format("op '{}': attribute 'p' is {}, expected a probability from 0 to 1", op_name(kind), p));
  return static_cast<std::uint64_t>(std::llround(p * 0x1p32));
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::max();
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
    default:
      return std::numeric_limits<float>::max();
  }
}

double representable(Kind kind, const Attributes& attributes, std::string_view name, DType dtype) {
  const double value = attributes.get_double(name);
  if (!(std::abs(value) <= largest(dtype)))
    throw_value_error(fmt::format("op '{}': attribute '{}' is {}, expected a finite number of {}, at most {:.5g}",
                                  op_name(kind), name, value, kiln::name(dtype), largest(dtype)));
  return value;
}

void set_floats(ops::Distribution& parameters, double first, double second) {
  parameters.f64[0] = first;
  parameters.f64[1] = second;
  for (int i = 0; i < 2; ++i) parameters.f32[i] = static_cast<float>(parameters.f64[i]);
}

void resolve_uniform(Draw& draw, DType dtype, const Attributes& attributes) {
  const double low = representable(draw.kind, attributes, "low", dtype);
  const double high = representable(draw.kind, attributes, "high", dtype);
  if (!(low < high))
    throw_value_error(
        fmt::format("op 'uniform': attribute 'low' is {} and 'high' is {}; expected low < high", low, high));
  if (!(high - low <= largest(draw.compute)))
    throw_value_error(fmt::format("op 'uniform': from low = {} to high = {} is further than {} reaches, {:.5g}", low,
                                  high, name(draw.compute), largest(draw.compute)));
  set_floats(draw.parameters, low, high - low);
}

void resolve_normal(Draw& draw, DType dtype, const Attributes& attributes) {
  const double mean = representable(draw.kind, attributes, "mean", dtype);
  const double std = representable(draw.kind, attributes, "std", dtype);
  if (std < 0) throw_value_error(fmt::format("op 'normal': attribute 'std' is {}, expected 0 or more", std));
  set_floats(draw.parameters, mean, std);
}

/// Holds every 64-bit integer, signed or not, and their differences.
__extension__ using Wide = __int128;

Wide wide(const Attributes& attributes, std::string_view name) {
  if (const auto* large = std::get_if<std::uint64_t>(attributes.find(name))) return *large;
  return attributes.get_int(name);
}

std::string spell(Wide value) {
  return value < 0 ? fmt::format("{}", static_cast<std::int64_t>(value))
                   : fmt::format("{}", static_cast<std::uint64_t>(value));
}

void resolve_randint(Draw& draw, DType dtype, const Attributes& attributes) {
  const Wide low = wide(attributes, "low"), high = wide(attributes, "high");
  if (low >= high)
    throw_value_error(fmt::format("op 'randint': attribute 'low' is {} and 'high' is {}; expected low < high",
                                  spell(low), spell(high)));
  const bool is_signed = info(dtype).is_signed;
  const std::int64_t bits = dtype == DType::bool_ ? 1 : 8 * itemsize_bytes(dtype) - (is_signed ? 1 : 0);
  const Wide most = (Wide{1} << bits) - 1, least = is_signed ? -most - 1 : 0;
  if (low < least || high - 1 > most)
    throw_value_error(
        fmt::format("op 'randint': numbers from low = {} to high - 1 = {} do not fit {}, which holds {} to {}",
                    spell(low), spell(high - 1), name(dtype), spell(least), spell(most)));
  draw.parameters.bits[0] = static_cast<std::uint64_t>(low);
  draw.parameters.bits[1] = static_cast<std::uint64_t>(high - low);
  draw.elements_per_block = draw.parameters.bits[1] <= kMostNarrowRange ? 4 : 2;
}

}  // namespace

std::string_view op_name(Kind kind) {
  static constexpr std::string_view kNames[] = {"uniform", "normal", "randint", "bernoulli", "dropout"};
  return kNames[static_cast<int>(kind)];
}

std::vector<DType> dtypes_of(Kind kind) {
  if (kind == Kind::bernoulli) return {kAllDTypes.begin(), kAllDTypes.end()};
  if (kind == Kind::randint)
    return {DType::i64, DType::i32, DType::i16, DType::i8, DType::u64, DType::u32, DType::u16, DType::u8, DType::bool_};
  return {DType::f64, DType::f32, DType::f16, DType::bf16};
}

Draw resolve_draw(Kind kind, DType dtype, const Attributes& attributes) {
  const std::vector<DType> dtypes = dtypes_of(kind);
  if (std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end())
    throw_type_error(
        fmt::format("op '{}': dtype is {}, expected one of {}", op_name(kind), name(dtype), dtype_names(dtypes)));
  Draw draw;
  draw.kind = kind;
  draw.seed = natural(kind, attributes, "seed");
  draw.offset = natural(kind, attributes, "offset");
  if (dtype == DType::f64) draw.compute = DType::f64;
  switch (kind) {
    case Kind::uniform:
    case Kind::normal:
      if (kind == Kind::uniform)
        resolve_uniform(draw, dtype, attributes);
      else
        resolve_normal(draw, dtype, attributes);
      draw.elements_per_block = draw.compute == DType::f64 ? 2 : 4;
      break;
    case Kind::randint:
      resolve_randint(draw, dtype, attributes);
      break;
    case Kind::bernoulli:
    case Kind::dropout:
      draw.parameters.bits[0] = probability_bits(kind, attributes);
      // Where everything is dropped nothing is scaled, and 1 / 0 must not be computed.
      if (const double p = attributes.get_double("p"); p < 1) set_floats(draw.parameters, 1 / (1 - p), 0);
      break;
  }
  return draw;
}

Dims size_of(Kind kind, const Attributes& attributes) {
  const auto& size = std::get<std::vector<std::int64_t>>(*attributes.find("size"));
  if (size.size() > static_cast<std::size_t>(kMaxRank))
    throw_value_error(fmt::format("op '{}': attribute 'size' is {}, expected at most {} dimensions", op_name(kind),
                                  to_string(AttributeValue(size)), kMaxRank));
  for (const std::int64_t extent : size)
    if (extent < 0)
      throw_value_error(
          fmt::format("op '{}': attribute 'size' is {}, and {} is negative; expected extents of 0 or more",
                      op_name(kind), to_string(AttributeValue(size)), extent));
  const Dims shape{std::span(size)};
  num_elements(shape);  // refuses a product beyond 64 bits
  return shape;
}

}  // namespace kiln::random
