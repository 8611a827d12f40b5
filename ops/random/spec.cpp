#include "ops/random/spec.hpp"

#include <string>

#include "ops/common/traffic.hpp"
#include "ops/random/distribution.hpp"
#include "ops/random/examples.hpp"
#include "ops/random/launch.hpp"
#include "ops/random/reference.hpp"

namespace kiln::random {
namespace {

AttributeSpec optional(std::string name, AttributeValue fallback, std::string doc) {
  return {std::move(name), std::move(fallback), false, std::move(doc)};
}

std::string doc_of(Kind kind) {
  switch (kind) {
    case Kind::uniform:
      return "uniform in [low, high): low + u (high - low), u of 31 bits, 53 for f64; rounding to the dtype may give "
             "high itself";
    case Kind::normal:
      return "normal: Box-Muller of uniform pairs; |x - mean| <= 5.68 std, 8.58 std for f64";
    case Kind::randint:
      return "integers of [low, high): a random word of 32 bits (64 where high - low > 65536) times high - low, its "
             "upper half; a number's probability is 1 / (high - low) to 1 part in 2^16 (2^64 / (high - low) for 64 "
             "bits)";
    case Kind::bernoulli:
      return "1 with probability p, in steps of 2^-32, else 0";
    case Kind::dropout:
      break;
  }
  return "0 with probability p, in steps of 2^-32, even where x is NaN; else x / (1 - p)";
}

std::vector<AttributeSpec> attributes_of(Kind kind) {
  std::vector<AttributeSpec> attributes;
  if (kind != Kind::dropout) attributes.push_back({"size", std::vector<std::int64_t>{}, true, "the output's shape"});
  switch (kind) {
    case Kind::uniform:
      attributes.push_back(optional("low", 0.0, ""));
      attributes.push_back(optional("high", 1.0, ""));
      break;
    case Kind::normal:
      attributes.push_back(optional("mean", 0.0, ""));
      attributes.push_back(optional("std", 1.0, "0 or more"));
      break;
    case Kind::randint:
      attributes.push_back(optional("low", std::int64_t{0}, "the smallest"));
      attributes.push_back({"high", std::int64_t{0}, true, "one more than the largest"});
      break;
    case Kind::bernoulli:
    case Kind::dropout:
      attributes.push_back(optional("p", 0.5, "probability, 0 to 1"));
      break;
  }
  attributes.push_back({"seed", std::int64_t{0}, true,
                        "0 or more; equal seeds and offsets give equal numbers, whatever the device and the strides"});
  attributes.push_back(optional(
      "offset", std::int64_t{0},
      "blocks of the seed's stream to skip: element i comes from block offset + i / 4 of Philox, or offset + i / 2 "
      "where it takes 64 bits (f64, wide randint), so a call of n elements is followed by offset + ceil(n / 4)"));
  for (AttributeSpec& place : std::span(attributes).last(2)) place.decides_speed = false;
  for (AttributeSpec& attribute : attributes)
    attribute.is_unsigned = std::holds_alternative<std::int64_t>(attribute.fallback);
  if (kind != Kind::dropout)
    attributes.push_back(optional("dtype", kind == Kind::randint ? DType::i64 : DType::f32, "the output's"));
  return attributes;
}

std::vector<TensorMeta> infer(Kind kind, std::span<const TensorView> inputs, const Attributes& attributes) {
  const TensorMeta meta = kind == Kind::dropout ? TensorMeta{inputs[0].dtype, inputs[0].shape}
                                                : TensorMeta{attributes.get_dtype("dtype"), size_of(kind, attributes)};
  resolve_draw(kind, meta.dtype, attributes);  // refuses what is out of range
  return {meta};
}

/// Everything is the same operations on the same bits, but for normal, whose reference is in double with the standard
/// library's functions. There the errors are absolute: those of the radius and of sine and cosine, times std.
Tolerance tolerance(Kind kind, DType dtype) {
  if (kind != Kind::normal) return {};
  switch (dtype) {
    case DType::f64:
      return {1e-14, 1e-13};
    case DType::f16:
      return {0x1p-10, 1e-5};
    case DType::bf16:
      return {0x1p-7, 1e-5};
    default:
      return {1e-6, 1e-5};
  }
}

OpSpec make_spec(Kind kind, const KernelSource& source) {
  OpSpec spec;
  spec.name = op_name(kind);
  spec.doc = doc_of(kind);
  if (kind == Kind::dropout) {
    spec.inputs = {{"x", ""}};
    spec.aliasing = Aliasing::elementwise;
  }
  spec.outputs = {{"out", ""}};
  spec.attributes = attributes_of(kind);
  spec.dtypes = dtypes_of(kind);
  spec.infer = [kind](std::span<const TensorView> inputs, const Attributes& attributes) {
    return infer(kind, inputs, attributes);
  };
  spec.variants = random_variants(kind, source);
  spec.cost = [](const OpCall& call) { return common::each_tensor_once(call, 0); };
  spec.reference = [kind](const OpCall& call) { run_reference(kind, call); };
  spec.examples = make_examples(kind);
  spec.random_example = [kind](std::mt19937_64& random) { return random_example(kind, random); };
  spec.tolerance = [kind](DType dtype) { return tolerance(kind, dtype); };
  return spec;
}

}  // namespace

std::vector<OpSpec> random_specs() {
  const KernelSource source = embedded_source("ops/random/kernel.hpp");
  std::vector<OpSpec> specs;
  for (const Kind kind : {Kind::uniform, Kind::normal, Kind::randint, Kind::bernoulli, Kind::dropout})
    specs.push_back(make_spec(kind, source));
  return specs;
}

}  // namespace kiln::random
