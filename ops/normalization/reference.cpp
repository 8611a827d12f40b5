#include "ops/normalization/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "ops/common/element.hpp"
#include "ops/common/position.hpp"
#include "ops/common/tolerance.hpp"

namespace kiln::normalization {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double read(const TensorView& view, std::int64_t offset) {
  return common::load_at<double>(view, offset);
}
void write(const TensorView& view, std::int64_t offset, double value) {
  common::store_at<double>(view, offset, value);
}

/// The tile language casts double to a narrow float by way of float.
double by_way_of_float(DType to, double value) {
  return compute_dtype(to) == DType::f32 ? static_cast<double>(static_cast<float>(value)) : value;
}

/// What overflows the dtype a kernel computes in overflows here.
double in_compute_range(double value, DType dtype) {
  if (compute_dtype(dtype) == DType::f64) return value;
  return std::abs(value) > static_cast<double>(std::numeric_limits<float>::max()) ? std::copysign(kInfinity, value)
                                                                                  : value;
}

}  // namespace

void softmax_reference(const OpCall& call, int axis, bool is_log) {
  const TensorView& x = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const std::int64_t n = x.ndim() == 0 ? 1 : x.shape[axis];
  const std::int64_t step = x.ndim() == 0 ? 0 : x.strides[axis], out_step = x.ndim() == 0 ? 0 : out.strides[axis];
  std::vector<double> row(static_cast<std::size_t>(n));
  common::for_each_line_along(x.shape, axis, [&](const Dims& index) {
    const std::int64_t from = common::offset_at(x, index), to = common::offset_at(out, index);
    double maximum = -kInfinity;
    for (std::int64_t i = 0; i < n; ++i) {
      const double value = common::through<double>(out.dtype, by_way_of_float(out.dtype, read(x, from + i * step)));
      row[static_cast<std::size_t>(i)] = value;
      maximum = std::isnan(value) || value > maximum ? value : maximum;
    }
    long double sum = 0;
    for (const double value : row) sum += std::exp(value - maximum);
    const auto total = static_cast<double>(sum);
    for (std::int64_t i = 0; i < n; ++i) {
      const double distance = row[static_cast<std::size_t>(i)] - maximum;
      write(out, to + i * out_step, is_log ? distance - std::log(total) : std::exp(distance) / total);
    }
  });
}

void norm_reference(const OpCall& call, const NormCall& norm, bool is_layer) {
  const TensorView& x = call.inputs[0];
  const TensorView& out = call.outputs[0];
  std::vector<Dims> places;  // of a row's elements
  common::for_each_line(
      x.shape, [&](int axis) { return !norm.is_normalized(axis); },
      [&](const Dims& index) { places.push_back(index); });
  const auto n = static_cast<double>(places.size());
  std::vector<double> row(places.size());
  common::for_each_line(
      x.shape, [&](int axis) { return norm.is_normalized(axis); },
      [&](const Dims& start) {
        long double sum = 0;
        for (std::size_t i = 0; i < row.size(); ++i) {
          row[i] = read(x, common::offset_at(x, start) + common::offset_at(x, places[i]));
          if (norm.residual != nullptr) {
            const double summed = row[i] + read(*norm.residual, common::offset_at(*norm.residual, start) +
                                                                    common::offset_at(*norm.residual, places[i]));
            const TensorView& residual_out = call.outputs[1];
            write(residual_out, common::offset_at(residual_out, start) + common::offset_at(residual_out, places[i]),
                  summed);
            row[i] = common::through<double>(x.dtype, summed);
          }
          sum += static_cast<long double>(row[i]) - row[0];
        }
        // By way of the distances from the first element, so that the mean of a constant row is its element: half a
        // unit in its last place would be multiplied by the weight and 1 / sqrt(eps).
        const long double mean = is_layer ? row[0] + sum / n : 0;
        long double square_sum = 0;
        for (const double value : row) square_sum += (value - mean) * (value - mean);
        const double squares = in_compute_range(static_cast<double>(square_sum), x.dtype);
        const double inverse = is_layer && std::isinf(squares) ? kNan : 1 / std::sqrt(squares / n + norm.eps);
        for (std::size_t i = 0; i < row.size(); ++i) {
          const auto parameter = [&](const TensorView* view, double otherwise) {
            if (view == nullptr) return otherwise;
            std::int64_t offset = 0;
            for (int axis = norm.first_axis; axis < x.ndim(); ++axis)
              offset += places[i][axis] * view->strides[axis - norm.first_axis];
            return read(*view, offset);
          };
          const double distance = static_cast<double>(row[i] - mean);
          const double result = distance * inverse * parameter(norm.weight, 1) + parameter(norm.bias, 0);
          write(out, common::offset_at(out, start) + common::offset_at(out, places[i]), result);
        }
      });
}

Tolerance softmax_tolerance(DType out) {
  // The argument of the exponential carries a rounding of its own, so the error grows with it; below the smallest
  // normal number a GPU gives 0. In f64 the sum's rounding leads: a million terms in 64 lanes, each rounded the same
  // way where narrow inputs have few values, are off by 2^-53 for each of a lane's terms.
  return rounded_to(out, out == DType::f64 ? Tolerance{4e-12, 1e-300} : Tolerance{2e-5, 1e-36});
}

Tolerance log_softmax_tolerance(DType out) {
  return rounded_to(out, out == DType::f64 ? Tolerance{1e-14, 4e-12} : Tolerance{1e-6, 4e-6});
}

Tolerance norm_tolerance(DType out) {
  // A result near 0 is what cancellation left of a row's spread; a weight may make it large again.
  return rounded_to(out, out == DType::f64 ? Tolerance{1e-10, 1e-12} : Tolerance{5e-4, 4e-5});
}

}  // namespace kiln::normalization
