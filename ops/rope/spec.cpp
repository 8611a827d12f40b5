#include "ops/rope/spec.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "ops/common/traffic.hpp"
#include "ops/rope/examples.hpp"
#include "ops/rope/launch.hpp"
#include "ops/rope/problem.hpp"
#include "ops/rope/reference.hpp"

namespace kiln::rope {
namespace {

InputSpec optional_input(std::string name, std::string doc, std::vector<DType> dtypes) {
  InputSpec input{std::move(name), std::move(doc), true};
  input.dtypes = std::move(dtypes);
  return input;
}

InputSpec positions_input() {
  InputSpec input = optional_input("positions",
                                   "i64 or i32, broadcasts to [..., T]: the row of cos and sin that serves a token, or "
                                   "its place where these are not "
                                   "given; without it token t is at t",
                                   {DType::i64, DType::i32});
  input.selects = [](const OpCall& call) -> std::vector<SelectionRange> {
    return {{.low = 0, .high = rope_problem(call.inputs, call.attributes).num_positions - 1}};
  };
  return input;
}

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
  spec.inputs = {{"x", "[..., T, H, D]; any strides"},
                 optional_input("cos",
                                "[positions, rotary_dim / 2], f32 or x's dtype; without positions [..., T or more, "
                                "rotary_dim / 2], whose row t serves token t",
                                {DType::f32, DType::f16, DType::bf16}),
                 optional_input("sin", "as cos; without both angles are computed: position * base^(-2 i / rotary_dim)",
                                {DType::f32, DType::f16, DType::bf16}),
                 positions_input()};
  spec.outputs = {{"out", "as x; may be x itself"}};
  constexpr bool kNoMatterForSpeed = false;
  spec.attributes = {
      {"rotary_dim", std::int64_t{0}, false, "numbers of a head that turn, even, the first ones; 0: all"},
      {"interleaved", false, false,
       "pairs are neighbours, 2 i and 2 i + 1 (GPT-J); else i and i + rotary_dim / 2 (NeoX, Llama of transformers)"},
      {"inverse", false, false, "turns back"},
      {"base", kDefaultBase, false, "of computed angles, above 1", kNoMatterForSpeed},
      {"scaling", std::string("none"), false,
       "of computed angles: \"linear\" divides them by factor, \"llama3\" the slow ones of them"},
      {"factor", 1.0, false, "1 or more", kNoMatterForSpeed},
      {"low_freq_factor", 1.0, false,
       "llama3: what turns as often or less within original_max_position is divided by factor", kNoMatterForSpeed},
      {"high_freq_factor", 4.0, false, "llama3: what turns as often or more stays; what is between is blended",
       kNoMatterForSpeed},
      {"original_max_position", std::int64_t{8192}, false, "llama3: positions that the model was first trained with",
       kNoMatterForSpeed}};
  spec.dtypes = {DType::f32, DType::f16, DType::bf16};
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
  return {rope_spec()};
}

}  // namespace kiln::rope
