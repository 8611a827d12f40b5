#include "ops/indexing/spec.hpp"

#include <fmt/format.h>

#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "ops/common/attribute_reader.hpp"
#include "ops/indexing/examples.hpp"
#include "ops/indexing/launch.hpp"
#include "ops/indexing/reference.hpp"

namespace kiln::indexing {
namespace {

// Atomic additions exist for these, and torch has them too; fp8 and bool are for moving only.
constexpr DType kAddableDTypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                                    DType::i16, DType::i8,  DType::u64, DType::u32,  DType::u16, DType::u8};

using Views = std::span<const TensorView>;

void check_index_dtype(std::string_view op, const TensorView& index) {
  if (index.dtype != DType::i64 && index.dtype != DType::i32)
    throw_type_error(fmt::format("op '{}': input 'index' is {}, expected dtype i64 or i32", op, describe(index)));
}

int check_dim(std::string_view op, const TensorView& x, const Attributes& attributes) {
  return axis_of(op, "dim", *attributes.find("dim"), x.ndim());
}

/// A tensor without dimensions counts as one of one element.
Dims at_least_1d(const TensorView& view) {
  return view.ndim() == 0 ? Dims{1} : view.shape;
}

void check_rank(std::string_view op, std::string_view name, const TensorView& view, const TensorView& x) {
  if (at_least_1d(view).size() != at_least_1d(x).size())
    throw_value_error(fmt::format("op '{}': input '{}' has shape {} and 'x' {}; expected as many dimensions", op, name,
                                  to_string(view.shape), to_string(x.shape)));
}

/// index must lie within `view` in every dimension but `free`.
void check_within(std::string_view op, const TensorView& index, std::string_view name, const TensorView& view,
                  int free) {
  const Dims inner = at_least_1d(index), outer = at_least_1d(view);
  for (int axis = 0; axis < inner.size(); ++axis)
    if (axis != free && inner[axis] > outer[axis])
      throw_value_error(
          fmt::format("op '{}': input 'index' has shape {}, which in dimension {} is more than the {} of input '{}' {}",
                      op, to_string(index.shape), axis, outer[axis], name, to_string(view.shape)));
}

std::vector<TensorMeta> infer_index_select(Views inputs, const Attributes& attributes) {
  const TensorView &x = inputs[0], &index = inputs[1];
  const int dim = check_dim("index_select", x, attributes);
  check_index_dtype("index_select", index);
  if (index.ndim() > 1)
    throw_value_error(
        fmt::format("op 'index_select': input 'index' has shape {}, expected one dimension", to_string(index.shape)));
  if (x.ndim() == 0 && index.numel() != 1)
    throw_value_error(
        fmt::format("op 'index_select': input 'index' has shape {}, expected one element for an 'x' of no dimensions",
                    to_string(index.shape)));
  Dims shape = x.shape;
  if (x.ndim() > 0) shape[dim] = index.numel();
  return {{x.dtype, shape}};
}

std::vector<TensorMeta> infer_gather(Views inputs, const Attributes& attributes) {
  const TensorView &x = inputs[0], &index = inputs[1];
  const int dim = check_dim("gather", x, attributes);
  check_index_dtype("gather", index);
  check_rank("gather", "index", index, x);
  check_within("gather", index, "x", x, dim);
  return {{x.dtype, index.shape}};
}

std::vector<TensorMeta> infer_scatter_add(Views inputs, const Attributes& attributes) {
  const TensorView &x = inputs[0], &index = inputs[1], &src = inputs[2];
  const int dim = check_dim("scatter_add", x, attributes);
  check_index_dtype("scatter_add", index);
  if (src.dtype != x.dtype)
    throw_type_error(fmt::format("op 'scatter_add': input 'src' is {}, expected the dtype of 'x', {}", describe(src),
                                 name(x.dtype)));
  check_rank("scatter_add", "index", index, x);
  check_rank("scatter_add", "src", src, x);
  check_within("scatter_add", index, "x", x, dim);
  check_within("scatter_add", index, "src", src, -1);
  return {{x.dtype, x.shape}};
}

/// Additions one after the other, of numbers around 1 (`random_scatter_add` says how many).
Tolerance addition_tolerance(DType out) {
  switch (out) {
    case DType::f64:
      return {1e-13, 1e-12};
    case DType::f32:
      return {1e-5, 1e-4};
    case DType::f16:
      return {2e-3, 2e-2};
    case DType::bf16:
      return {2e-2, 0.15};
    default:
      return {};
  }
}

double bytes_of(const TensorView& view, double elements) {
  return elements * static_cast<double>(itemsize_bytes(view.dtype));
}
double bytes_of(const TensorView& view) {
  return bytes_of(view, static_cast<double>(view.numel()));
}

Cost gathering_cost(const OpCall& call) {
  return {0, bytes_of(call.inputs[1]) + 2 * bytes_of(call.outputs[0])};
}

Cost scatter_cost(const OpCall& call) {
  const auto additions = static_cast<double>(call.inputs[1].numel());
  return {additions, bytes_of(call.inputs[0]) + bytes_of(call.inputs[1]) + bytes_of(call.inputs[2], additions) +
                         bytes_of(call.outputs[0])};
}

/// Entries count along `dim` of x.
InputSpec index_input(std::string_view op, std::string doc) {
  InputSpec input{"index", std::move(doc)};
  input.selects = [op](const OpCall& call) -> std::vector<SelectionRange> {
    const TensorView& x = call.inputs[0];
    const Dims shape = at_least_1d(x);
    return {{.low = 0, .high = shape[check_dim(op, x, call.attributes)] - 1}};
  };
  return input;
}

AttributeSpec dim_attribute() {
  return {"dim", std::int64_t{0}, true, "the dimension of x that indices count along, from the end if negative"};
}

OpSpec index_select_spec() {
  OpSpec spec;
  spec.name = "index_select";
  spec.doc =
      "out[.., i, ..] = x[.., index[i], ..] along dim; an index outside [0, n), negative ones included, gives zeros";
  spec.inputs = {{"x", ""}, index_input("index_select", "i64 or i32, one dimension")};
  spec.outputs = {{"out", ""}};
  spec.attributes = {dim_attribute()};
  spec.dtypes.assign(kAllDTypes.begin(), kAllDTypes.end());
  spec.infer = infer_index_select;
  spec.variants = index_select_variants();
  spec.cost = gathering_cost;
  spec.reference = index_select_reference;
  spec.examples = index_select_examples();
  spec.random_example = [](std::mt19937_64& random) { return random_index_select(random, kAllDTypes); };
  spec.spoil_inputs = spoil_index;
  spec.tolerance = [](DType) { return Tolerance{}; };
  return spec;
}

OpSpec gather_spec() {
  OpSpec spec;
  spec.name = "gather";
  spec.doc =
      "out[.., i, ..] = x[.., index[.., i, ..], ..] along dim; an index outside [0, n), negative ones included, gives "
      "0";
  spec.inputs = {{"x", ""}, index_input("gather", "i64 or i32, as many dimensions as x, within it in all but dim")};
  spec.outputs = {{"out", "of index's shape"}};
  spec.attributes = {dim_attribute()};
  spec.dtypes.assign(kAllDTypes.begin(), kAllDTypes.end());
  spec.infer = infer_gather;
  spec.variants = gather_variants();
  spec.cost = gathering_cost;
  spec.reference = gather_reference;
  spec.examples = gather_examples();
  spec.random_example = [](std::mt19937_64& random) { return random_gather(random, kAllDTypes); };
  spec.spoil_inputs = spoil_index;
  spec.tolerance = [](DType) { return Tolerance{}; };
  return spec;
}

OpSpec scatter_add_spec() {
  OpSpec spec;
  spec.name = "scatter_add";
  spec.doc =
      "x with x[.., index[.., i, ..], ..] += src[.., i, ..] along dim; an index outside [0, n), negative ones "
      "included, adds nothing; integers wrap and are exact, floats round in the order in which threads arrive, which "
      "differs from run to run";
  spec.inputs = {{"x", ""},
                 index_input("scatter_add", "i64 or i32, as many dimensions as x, within it in all but dim"),
                 {"src", "of x's dtype, at least as large as index"}};
  spec.outputs = {{"out", "of x's shape"}};
  spec.attributes = {dim_attribute()};
  spec.dtypes.assign(std::begin(kAddableDTypes), std::end(kAddableDTypes));
  spec.aliasing = Aliasing::first_input;
  spec.infer = infer_scatter_add;
  spec.variants = scatter_add_variants();
  spec.cost = scatter_cost;
  spec.reference = scatter_add_reference;
  spec.examples = scatter_add_examples();
  spec.random_example = [](std::mt19937_64& random) { return random_scatter_add(random, kAddableDTypes); };
  spec.spoil_inputs = spoil_index;
  spec.tolerance = addition_tolerance;
  return spec;
}

}  // namespace

std::vector<OpSpec> indexing_specs() {
  return {index_select_spec(), gather_spec(), scatter_add_spec()};
}

}  // namespace kiln::indexing
