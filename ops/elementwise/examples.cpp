#include "ops/elementwise/promotion.hpp"
#include "ops/elementwise/reference.hpp"

namespace kiln::elementwise {

std::vector<Example> make_examples(const OpRow& row) {
  const DType base = row.rule == DTypeRule::bitwise ? DType::i32 : DType::f32;
  const DType narrow = row.rule == DTypeRule::bitwise ? DType::u8 : DType::f16;
  const Attributes defaults = row.rule == DTypeRule::cast || row.rule == DTypeRule::fill || row.name == "clamp"
                                  ? row.examples.front()
                                  : Attributes();
  const auto metas = [&row](DType dtype, const std::vector<Dims>& shapes) {
    std::vector<TensorMeta> inputs;
    for (int i = 0; i < row.arity; ++i) {
      const bool is_condition = row.rule == DTypeRule::where && i == 0;
      inputs.push_back({is_condition ? DType::bool_ : dtype, shapes[static_cast<std::size_t>(i) % shapes.size()]});
    }
    return inputs;
  };

  std::vector<Example> examples = {
      {metas(base, {{64, 1000}}), defaults},
      {metas(narrow, {{33, 65}}), defaults},
      {metas(base, {{}}), defaults},
      {metas(base, {{0, 3}}), defaults},
  };
  for (const Attributes& attributes : row.examples) examples.push_back({metas(base, {{17, 129}}), attributes});
  if (row.arity > 1) {
    examples.push_back({metas(base, {{32, 257}, {257}}), defaults});    // a row for every row
    examples.push_back({metas(base, {{32, 257}, {32, 1}}), defaults});  // a number for every row
    examples.push_back({metas(narrow, {{1, 40}, {24, 1}}), defaults});  // an outer product
    examples.push_back({metas(base, {{5, 1, 3, 2}, {7, 1, 2}}), defaults});
  }
  if (row.arity == 2) {
    Attributes scalar = defaults;
    scalar.set("other", std::int64_t{2});
    examples.push_back({{{base, {40, 50}}}, scalar});
    if (row.rule != DTypeRule::bitwise) {
      scalar.set("other", -1.5);
      examples.push_back({{{narrow, {40, 50}}}, scalar});
      examples.push_back({{{base, {12, 34}}, {narrow, {34}}}, defaults});
    }
  }
  return examples;
}

}  // namespace kiln::elementwise
