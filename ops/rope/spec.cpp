#include "ops/rope/spec.hpp"

#include <algorithm>
#include <cstdint>

#include "ops/common/traffic.hpp"
#include "ops/rope/append_spec.hpp"
#include "ops/rope/attributes.hpp"
#include "ops/rope/examples.hpp"
#include "ops/rope/launch.hpp"
#include "ops/rope/problem.hpp"
#include "ops/rope/reference.hpp"

namespace kiln::rope {
namespace {

/// Three operations a number, and of tables as many rows as there are tokens.
Cost cost(const OpCall& call) {
  const RopeProblem problem = rope_problem(call.inputs, call.attributes);
  const TensorView& x = call.inputs[kX];
  const double head_bytes = static_cast<double>(problem.heads * problem.head_dim * itemsize_bytes(x.dtype));
  const double tokens = head_bytes == 0 ? 0 : common::whole_bytes(x) / head_bytes;
  double bytes = common::stored_bytes(x) + common::whole_bytes(call.outputs[0]);
  if (problem.positions != nullptr) bytes += common::stored_bytes(*problem.positions);
  if (problem.cos != nullptr) {
    const double row_bytes = static_cast<double>(problem.pairs() * itemsize_bytes(problem.cos->dtype));
    bytes += 2 * std::min(common::stored_bytes(*problem.cos), tokens * row_bytes);
  }
  return {3 * static_cast<double>(problem.rotary_dim * problem.heads) * tokens, bytes};
}

OpSpec rope_spec() {
  OpSpec spec;
  spec.name = kOp;
  spec.doc =
      "rotary position embedding: pairs (a, b) of each head's first rotary_dim numbers become (a cos - b sin, b cos + "
      "a "
      "sin), the others stay; a position that is none, negative or too large, has cos and sin of 0";
  spec.inputs = {{"x", "[..., T, H, D]; any strides"}};
  for (const InputSpec& input : table_inputs()) spec.inputs.push_back(input);
  spec.inputs.push_back(
      positions_input("i64 or i32, broadcasts to [..., T]: the row of cos and sin that serves a token, or its place "
                      "where these are not "
                      "given; without it token t is at t",
                      [](const OpCall& call) { return rope_problem(call.inputs, call.attributes).num_positions; }));
  spec.outputs = {{"out", "as x; may be x itself"}};
  spec.attributes = rotation_attributes();
  spec.attributes.push_back({"inverse", false, false, "turns back"});
  spec.dtypes = {DType::f32, DType::f16, DType::bf16};
  // Tokens change from step to step: exact for decode batches, then by powers of two. How long tables are does not
  // count.
  constexpr auto kPowerOfTwo = ShapeKeyRule::Bucket::power_of_two, kAny = ShapeKeyRule::Bucket::any;
  spec.shape_rule.parts = {{.input = kX, .axis = -3, .bucket = kPowerOfTwo, .exact_up_to = 16},
                           {.input = kCos, .axis = -2, .bucket = kAny},
                           {.input = kSin, .axis = -2, .bucket = kAny},
                           {.input = kPositions, .axis = -1, .bucket = kPowerOfTwo, .exact_up_to = 16}};
  spec.aliasing = Aliasing::first_input;
  spec.infer = infer;
  spec.variants = rope_variants();
  spec.cost = cost;
  spec.reference = rope_reference;
  spec.examples = rope_examples();
  spec.random_example = random_rope_example;
  spec.spoil_inputs = spoil_positions;
  spec.tolerance = rope_tolerance;
  spec.input_ranges = {{}, {-1, 1}, {-1, 1}};
  return spec;
}

}  // namespace

std::vector<OpSpec> rope_specs() {
  return {rope_spec(), rope_append_spec()};
}

}  // namespace kiln::rope
