#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/common/element.hpp"
#include "ops/common/tolerance.hpp"
#include "ops/scan/scan_call.hpp"

namespace kiln::scan {
namespace {

/// The element, cast to the output's dtype first, as To: double or int64_t.
template <typename To>
To load_cast(const std::byte* address, DType in, DType out) {
  if (is_floating(in) || is_floating(out)) return common::through<To>(out, common::load_element<double>(address, in));
  return common::through<To>(out, common::load_element<std::int64_t>(address, in));
}

/// Along one line; steps in bytes. T is double or int64_t.
template <typename T>
void scan_line(const OpRow& row, std::int64_t length, const std::byte* in, std::int64_t in_step, DType in_dtype,
               std::byte* out, std::int64_t out_step, DType out_dtype) {
  // Unsigned, so that integers wrap.
  using Running = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  const bool adds = row.neutral == 0;
  auto running = static_cast<Running>(row.neutral);
  for (std::int64_t i = 0; i < length; ++i) {
    const auto value = static_cast<Running>(load_cast<T>(in + i * in_step, in_dtype, out_dtype));
    running = adds ? running + value : running * value;
    common::store_element<T>(out + i * out_step, out_dtype, static_cast<T>(running));
  }
}

}  // namespace

void run_reference(const OpRow& row, const OpCall& call) {
  const TensorView& in = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const ScanCall scan = resolve(row, in, call.attributes);
  const std::int64_t numel = out.numel();
  if (numel == 0) return;
  const std::int64_t length = in.ndim() == 0 ? 1 : in.shape[scan.axis];
  for (std::int64_t line = 0; line < numel / length; ++line) {
    std::int64_t rest = line, in_offset = 0, out_offset = 0;
    for (int axis = 0; axis < in.ndim(); ++axis) {
      if (axis == scan.axis) continue;
      const std::int64_t coordinate = rest % in.shape[axis];
      rest /= in.shape[axis];
      in_offset += coordinate * in.strides[axis];
      out_offset += coordinate * out.strides[axis];
    }
    const auto run = [&]<typename T>(T) {
      const std::int64_t in_step = in.ndim() == 0 ? 0 : in.strides[scan.axis];
      const std::int64_t out_step = in.ndim() == 0 ? 0 : out.strides[scan.axis];
      scan_line<T>(row, length, static_cast<const std::byte*>(in.data) + in_offset * itemsize_bytes(in.dtype),
                   in_step * itemsize_bytes(in.dtype), in.dtype,
                   static_cast<std::byte*>(out.data) + out_offset * itemsize_bytes(out.dtype),
                   out_step * itemsize_bytes(out.dtype), out.dtype);
    };
    if (is_floating(out.dtype))
      run(double{});
    else
      run(std::int64_t{});
  }
}

Tolerance tolerance(DType out) {
  if (!is_floating(out)) return {};
  // An element's error is that of some dozens of roundings at the size of the partial sums around it; where signs mix,
  // the sum may be small beside those.
  const double step = out == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double relative = 512 * step, absolute = 512 * step;
  return rounded_to(out, {relative, absolute});
}

}  // namespace kiln::scan
