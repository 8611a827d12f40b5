#include "ops/rope/attributes.hpp"

#include <utility>

#include "ops/rope/problem.hpp"

namespace kiln::rope {
namespace {

InputSpec optional_input(std::string name, std::string doc, std::vector<DType> dtypes) {
  InputSpec input{std::move(name), std::move(doc), true};
  input.dtypes = std::move(dtypes);
  return input;
}

}  // namespace

std::vector<InputSpec> table_inputs() {
  return {optional_input("cos",
                         "[positions, rotary_dim / 2], f32 or x's dtype; without positions [..., T or more, "
                         "rotary_dim / 2], whose row t serves token t",
                         {DType::f32, DType::f16, DType::bf16}),
          optional_input("sin", "as cos; without both angles are computed: position * base^(-2 i / rotary_dim)",
                         {DType::f32, DType::f16, DType::bf16})};
}

InputSpec positions_input(std::string doc, std::function<std::int64_t(const OpCall&)> num_positions) {
  InputSpec input = optional_input("positions", std::move(doc), {DType::i64, DType::i32});
  input.selects = [num_positions = std::move(num_positions)](const OpCall& call) -> std::vector<SelectionRange> {
    return {{.low = 0, .high = num_positions(call) - 1}};
  };
  return input;
}

std::vector<AttributeSpec> rotation_attributes() {
  constexpr bool kNoMatterForSpeed = false;
  return {
      {"rotary_dim", std::int64_t{0}, false, "numbers of a head that turn, even, the first ones; 0: all"},
      {"interleaved", false, false,
       "pairs are neighbours, 2 i and 2 i + 1 (GPT-J); else i and i + rotary_dim / 2 (NeoX, Llama of transformers)"},
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
}

}  // namespace kiln::rope
