#include "ops/layout/spec.hpp"

#include <functional>
#include <string>
#include <utility>

#include "ops/common/call_parser.hpp"
#include "ops/common/tolerance.hpp"
#include "ops/common/traffic.hpp"
#include "ops/layout/arrange.hpp"
#include "ops/layout/concat.hpp"
#include "ops/layout/copy_config.hpp"
#include "ops/layout/examples.hpp"
#include "ops/layout/reference.hpp"

namespace kiln::layout {
namespace {

/// An op that writes each element of its one input to another place.
struct CopyOp {
  std::string name;
  std::string doc;
  std::vector<AttributeSpec> attributes;
  TensorView (*arrange)(const TensorView& x, const Attributes& attributes);  ///< x in the output's order
  DType (*out_dtype)(const TensorView& x, const Attributes& attributes);
};

std::vector<CopyOp> copy_ops() {
  const auto same_order = [](const TensorView& x, const Attributes&) { return x; };
  const auto same_dtype = [](const TensorView& x, const Attributes&) { return x.dtype; };
  return {
      {"transpose",
       "x with dimensions dim0 and dim1 exchanged, written out",
       {{"dim0", std::int64_t{-2}, false, "a dimension; negative counts from the end"},
        {"dim1", std::int64_t{-1}, false, "the other"}},
       transposed,
       same_dtype},
      {"permute",
       "x with its dimensions in the order of dims, written out",
       {{"dims", std::vector<std::int64_t>{}, true, "each dimension once; negative counts from the end"}},
       permuted,
       same_dtype},
      {"copy",
       "x written out, dense or into the output's layout; float to integer truncates and saturates (NaN gives 0), "
       "integer to integer wraps, anything to bool is x != 0",
       {{"dtype", std::monostate{}, false, "of the result; None: that of x"}},
       same_order,
       copied_dtype},
  };
}

/// A cast to a narrow float may round halfway cases of a 64-bit input to the other neighbour.
Tolerance tolerance_of(DType out) {
  return rounded_to(out, {});
}

Variant variant_of(const common::CallParser<Copy>& parse, const std::string& op, CopyKind kind,
                   const KernelSource& source) {
  return common::variant_of<Copy>(
      parse,
      {.name = kind_name(kind),
       .doc = kind_doc(kind),
       .source = source,
       .kernel = kernel_name(kind),
       .serves = [kind](const Copy& copy, const Target& target) { return kind_of(copy, target.type) == kind; },
       .space = [kind](const Target& target) { return config_space(kind, target); },
       .default_config = [kind](const Copy& copy, const Target& target) { return default_config(kind, copy, target); },
       .plan =
           [kind, op](const Copy& copy, const Config& config, const Target& target) {
             LaunchPlan plan;
             plan.launches.push_back(make_launch(kind, op, copy, config, target, {.tensor = 0}, 1));
             return plan;
           }});
}

OpSpec base_spec(const std::string& name, const std::string& doc) {
  OpSpec spec;
  spec.name = name;
  spec.doc = doc;
  spec.outputs = {{"out", ""}};
  spec.dtypes.assign(kAllDTypes.begin(), kAllDTypes.end());
  spec.cost = [](const OpCall& call) { return common::each_tensor_once(call, 0); };
  spec.examples = examples_of(name);
  spec.random_example = [name](std::mt19937_64& random) { return random_example_of(name, random); };
  spec.tolerance = tolerance_of;
  return spec;
}

OpSpec copy_spec(const CopyOp& op, const KernelSource& source) {
  OpSpec spec = base_spec(op.name, op.doc);
  spec.inputs = {{"x", ""}};
  spec.attributes = op.attributes;
  spec.infer = [op](std::span<const TensorView> inputs, const Attributes& attributes) -> std::vector<TensorMeta> {
    return {{op.out_dtype(inputs[0], attributes), op.arrange(inputs[0], attributes).shape}};
  };
  const common::CallParser<Copy> parse(
      [op](const OpCall& call) { return make_copy(call.outputs[0], op.arrange(call.inputs[0], call.attributes)); });
  for (const CopyKind kind : kCopyKinds) spec.variants.push_back(variant_of(parse, op.name, kind, source));
  spec.reference = [op](const OpCall& call) {
    copy_elements(call.outputs[0], op.arrange(call.inputs[0], call.attributes));
  };
  return spec;
}

OpSpec concat_spec(const KernelSource& source) {
  OpSpec spec = base_spec("concat", "the inputs one after the other along dim");
  spec.inputs = {{"tensors", "of one dtype, and of one shape but for dim", false, true}};
  spec.attributes = {{"dim", std::int64_t{0}, false, "the dimension to join along; negative counts from the end"}};
  spec.infer = [](std::span<const TensorView> inputs, const Attributes& attributes) -> std::vector<TensorMeta> {
    return {{inputs[0].dtype, concatenated(inputs, attributes).shape}};
  };
  spec.variants = concat_variants(source);
  spec.reference = [](const OpCall& call) {
    const Concatenation parts = concatenated(call.inputs, call.attributes);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      Slice slice = slice_of(call.outputs[0], call.inputs[i], parts, i);
      slice.view.data = static_cast<std::byte*>(slice.view.data) + slice.offset * itemsize_bytes(slice.view.dtype);
      copy_elements(slice.view, call.inputs[i]);
    }
  };
  return spec;
}

}  // namespace

std::vector<OpSpec> layout_specs() {
  const KernelSource source = embedded_source("ops/layout/kernel.hpp");
  std::vector<OpSpec> specs;
  for (const CopyOp& op : copy_ops()) specs.push_back(copy_spec(op, source));
  specs.push_back(concat_spec(source));
  return specs;
}

}  // namespace kiln::layout
