#include "ops/reduction/spec.hpp"

#include "ops/common/traffic.hpp"
#include "ops/reduction/launch.hpp"
#include "ops/reduction/reduction.hpp"
#include "ops/reduction/reference.hpp"

namespace kiln::reduction {
namespace {

std::vector<AttributeSpec> attributes_of(Kind kind) {
  std::vector<AttributeSpec> attributes = {
      {"dim",
       {},
       false,
       finds_index(kind) ? "the dimension to reduce, counted from the end where negative; None: all"
                         : "the dimension or dimensions to reduce, counted from the end where negative; None: all"},
      {"keepdim", false, false, "keep reduced dimensions with extent 1"}};
  if (takes_dtype(kind)) attributes.push_back({"dtype", {}, false, "cast elements to this first; the output's dtype"});
  if (kind == Kind::var || kind == Kind::std)
    attributes.push_back({"correction", 1.0, false, "subtracted from the count (Bessel's is 1)"});
  if (kind == Kind::norm) attributes.push_back({"p", 2.0, false, "the order: any number, inf and -inf"});
  return attributes;
}

std::vector<DType> dtypes_of(Kind kind) {
  const bool only_floats = kind == Kind::var || kind == Kind::std || kind == Kind::norm || kind == Kind::logsumexp;
  std::vector<DType> dtypes;
  for (const DType dtype : kAllDTypes)
    if (is_floating(dtype) || !only_floats) dtypes.push_back(dtype);
  return dtypes;
}

std::vector<TensorMeta> infer(const OpRow& row, const TensorView& input, const Attributes& attributes) {
  const Reduction reduction = resolve(row, input, attributes);
  const Dims shape = output_shape(input, reduction.axes, attributes.get_bool("keepdim"));
  std::vector<TensorMeta> outputs = {{reduction.out, shape}};
  if (reduction.with_index) outputs.push_back({DType::i64, shape});
  return outputs;
}

Cost cost(const OpCall& call) {
  const TensorView& input = call.inputs[0];
  Cost cost;
  cost.flops = static_cast<double>(input.numel());
  cost.bytes = common::stored_bytes(input);
  for (const TensorView& output : call.outputs)
    cost.bytes += static_cast<double>(output.numel() * itemsize_bytes(output.dtype));
  return cost;
}

OpSpec make_spec(const OpRow& row, const KernelSource& source) {
  OpSpec spec;
  spec.name = row.name;
  spec.doc = row.doc;
  spec.inputs = {{"x", "any strides"}};
  spec.outputs = {{"out", ""}};
  if (row.kind == Kind::max || row.kind == Kind::min)
    spec.outputs = {{"values", ""}, {"indices", "i64; only where `dim` is given"}};
  spec.attributes = attributes_of(row.kind);
  spec.dtypes = dtypes_of(row.kind);
  spec.infer = [&row](std::span<const TensorView> inputs, const Attributes& attributes) {
    return infer(row, inputs[0], attributes);
  };
  spec.variants = reduction_variants(row, source);
  spec.cost = cost;
  spec.reference = [&row](const OpCall& call) { run_reference(row, call); };
  spec.examples = make_examples(row);
  spec.random_example = [&row, dtypes = spec.dtypes](std::mt19937_64& random) {
    return random_example(row, dtypes, random);
  };
  spec.tolerance = [&row](DType out) { return tolerance(row, out); };
  spec.input_ranges = input_ranges(row);
  return spec;
}

}  // namespace

std::vector<OpSpec> reduction_specs() {
  const KernelSource source = embedded_source("ops/reduction/kernel.hpp");
  std::vector<OpSpec> specs;
  for (const OpRow& row : op_table()) specs.push_back(make_spec(row, source));
  return specs;
}

}  // namespace kiln::reduction
