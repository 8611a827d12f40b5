#include "ops/elementwise/reference.hpp"

#include <array>
#include <cstddef>

#include "core/errors.hpp"
#include "ops/common/element.hpp"
#include "ops/common/tolerance.hpp"
#include "ops/elementwise/call.hpp"
#include "ops/elementwise/promotion.hpp"

namespace kiln::elementwise {
namespace {

/// An operand's address and its byte stride along each of the output's axes.
struct Cursor {
  std::byte* address;
  std::array<std::int64_t, kMaxRank> strides_bytes{};
};

Cursor make_cursor(const TensorView& view, const Dims& shape) {
  Cursor cursor{static_cast<std::byte*>(view.data)};
  const int missing = shape.size() - view.ndim();
  for (int axis = missing; axis < shape.size(); ++axis)
    if (view.shape[axis - missing] != 1)
      cursor.strides_bytes[static_cast<std::size_t>(axis)] = view.strides[axis - missing] * itemsize_bytes(view.dtype);
  return cursor;
}

template <typename T>
T load_operand(const std::byte* address, DType dtype, DType compute) {
  return common::visit_element(address, dtype, [compute](auto value) {
    // Straight from the stored type to float: by way of double it would round twice.
    if constexpr (std::is_floating_point_v<T>)
      return compute == DType::f32 ? static_cast<T>(static_cast<float>(value)) : static_cast<T>(value);
    else
      return common::convert<T>(value);
  });
}

template <typename T>
void run(const OpCall& call, std::span<const TensorView> inputs, T (*function)(const T*, const ReferenceArguments&),
         bool has_scalar_right, const ReferenceArguments& arguments, const ElementwiseTypes& types) {
  if (function == nullptr) throw InternalError("an elementwise op has no reference for its compute dtype");
  const TensorView& output = call.outputs[0];
  const int width_bits = arguments.width_bits;
  std::array<Cursor, ops::kMaxWalkOperands> cursors{};
  cursors[0] = make_cursor(output, output.shape);
  for (std::size_t i = 0; i < inputs.size(); ++i) cursors[i + 1] = make_cursor(inputs[i], output.shape);

  std::array<T, ops::kMaxWalkOperands> values{};
  if (has_scalar_right) values[1] = arguments.scalar<T>(kOtherSlot);
  std::array<std::int64_t, kMaxRank> coordinates{};
  const std::int64_t numel = output.numel();
  for (std::int64_t element = 0; element < numel; ++element) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      values[i] = load_operand<T>(cursors[i + 1].address, inputs[i].dtype, types.compute);
    common::store_element<T>(cursors[0].address, output.dtype, wrap(function(values.data(), arguments), width_bits));
    for (int axis = output.ndim() - 1; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      const bool carries = ++coordinates[a] == output.shape[axis];
      const std::int64_t steps = carries ? 1 - output.shape[axis] : 1;
      for (std::size_t o = 0; o <= inputs.size(); ++o) cursors[o].address += steps * cursors[o].strides_bytes[a];
      if (!carries) break;
      coordinates[a] = 0;
    }
  }
}

}  // namespace

void run_reference(const OpRow& row, const OpCall& call) {
  const ElementwiseTypes types = resolve_types(row, call.inputs, call.attributes);
  const ReferenceFunctions& functions = form_of(row, call.attributes, types.compute).reference;
  const std::span<const TensorView> inputs = kernel_inputs(row, call.inputs);
  const bool has_scalar_right = row.arity == 2 && inputs.size() == 1;
  ReferenceArguments arguments;
  arguments.scalars = make_scalars(row, call.attributes, types);
  arguments.width_bits = types.compute == DType::bool_ ? 1 : 8 * static_cast<int>(itemsize_bytes(types.compute));
  if (is_floating(types.compute))
    run<double>(call, inputs, functions.floating, has_scalar_right, arguments, types);
  else if (info(types.compute).is_signed)
    run<std::int64_t>(call, inputs, functions.signed_integer, has_scalar_right, arguments, types);
  else
    run<std::uint64_t>(call, inputs, functions.unsigned_integer, has_scalar_right, arguments, types);
}

Tolerance tolerance(const OpRow& row, DType out) {
  if (!is_floating(out)) return {};
  // Rounding steps of the compute dtype, relative; what cancellation may leave, absolute (inputs of the tests are a few
  // units).
  const bool is_double = out == DType::f64;
  const double step = is_double ? 0x1p-52 : 0x1p-23;
  const double denormal = is_double ? 1e-300 : 1e-37;
  Tolerance result;
  switch (row.accuracy) {
    case Accuracy::exact:
      result = {2 * step, denormal};
      break;
    case Accuracy::summed:
      result = {2 * step, 16 * step};
      break;
    case Accuracy::function:
      result = {32 * step, 2 * step};
      break;
    case Accuracy::composed:
      result = {32 * step, 16 * step};
      break;
  }
  return rounded_to(out, result);
}

}  // namespace kiln::elementwise
