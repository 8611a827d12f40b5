#include "ops/scan/spec.hpp"

#include "ops/common/traffic.hpp"
#include "ops/scan/launch.hpp"
#include "ops/scan/scan_call.hpp"

namespace kiln::scan {
namespace {

OpSpec make_spec(const OpRow& row, const KernelSource& source) {
  OpSpec spec;
  spec.name = row.name;
  spec.doc = row.doc;
  spec.inputs = {{"x", ""}};
  spec.outputs = {{"out", "of x's shape"}};
  spec.attributes = {
      {"dim", std::int64_t{0}, true, "the dimension to run along, counted from the end where negative"},
      {"dtype", {}, false, "cast elements to this first; the output's dtype. None: x's for floats, i64 for others"}};
  spec.dtypes = {kAllDTypes.begin(), kAllDTypes.end()};
  // A program reads each tile before it writes the same places, and no other program writes them.
  spec.aliasing = Aliasing::elementwise;
  spec.infer = [&row](std::span<const TensorView> inputs, const Attributes& attributes) {
    return std::vector<TensorMeta>{{resolve(row, inputs[0], attributes).out, inputs[0].shape}};
  };
  spec.variants = scan_variants(row, source);
  spec.cost = [](const OpCall& call) { return common::each_tensor_once(call, 1); };
  spec.reference = [&row](const OpCall& call) { run_reference(row, call); };
  spec.examples = make_examples();
  spec.random_example = [&row](std::mt19937_64& random) { return random_example(row, random); };
  spec.tolerance = tolerance;
  spec.input_ranges = {{-1, 1}};
  return spec;
}

}  // namespace

std::vector<OpSpec> scan_specs() {
  const KernelSource source = embedded_source("ops/scan/kernel.hpp");
  std::vector<OpSpec> specs;
  for (const OpRow& row : op_table()) specs.push_back(make_spec(row, source));
  return specs;
}

}  // namespace kiln::scan
