#include "registry/tuning/output_difference.hpp"

#include <cmath>

#include "registry/dispatch/dispatch.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

template <typename T>
T scalar_of(const Tensor& tensor, Stream stream) {
  synchronize(stream);
  return *to_device(tensor, Device::cpu()).data_as<T>();
}

Tensor flat(const Tensor& tensor) {
  return {dense_view(tensor.data(), tensor.dtype(), Dims{tensor.numel()}, tensor.device()), tensor.owner()};
}

}  // namespace

std::string output_difference(const Tensor& wanted, const Tensor& got, Tolerance tolerance, Stream stream) {
  const std::int64_t elements = wanted.numel();
  if (elements == 0) return {};
  const DispatchOptions options{.stream = stream, .tuning = TuningPolicy::off};
  const Tensor x = flat(got), y = flat(wanted);
  Attributes closeness{{"equal_nan", true}, {"rtol", 0.0}, {"atol", 0.0}};
  if (is_floating(wanted.dtype())) {
    const Tensor largest = dispatch_gpu_op(
        "amax", {dispatch_gpu_op("cast", {dispatch_gpu_op("abs", {y}, {}, options)}, {{"dtype", DType::f64}}, options)},
        {}, options);
    const auto scale = scalar_of<double>(largest, stream);
    closeness.set("rtol", 2 * tolerance.relative);
    closeness.set("atol", 2 * (std::isfinite(scale) ? std::fmax(tolerance.absolute, tolerance.relative * scale)
                                                    : tolerance.absolute));
  }
  const Tensor close = dispatch_gpu_op("isclose", {x, y}, closeness, options);
  const auto matching = scalar_of<std::int64_t>(dispatch_gpu_op("sum", {close}, {}, options), stream);
  if (matching == elements) return {};
  return std::to_string(elements - matching) + " of " + std::to_string(elements) +
         " elements differ from the default's";
}

}  // namespace kiln
