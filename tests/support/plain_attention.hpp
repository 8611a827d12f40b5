#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/dtype.hpp"
#include "tests/support/elements.hpp"

/// What a computation that rounds to 16 bits makes of attention, for FlashAttention's bound: at most twice its error,
/// and two units in the last place.
namespace kiln::test {

/// Through bf16.
inline double through_bf16(double value) {
  std::uint16_t bits = 0;
  write_number(DType::bf16, &bits, static_cast<double>(static_cast<float>(value)));
  return read_number(DType::bf16, &bits);
}

/// Of one head without masks, [queries, dim] and [keys, dim] dense, whose scale is 1 / sqrt(dim).
struct PlainAttention {
  std::vector<double> exact;
  double error = 0;    ///< the largest where scores, weights and results are rounded to bf16
  double largest = 0;  ///< number of `exact`

  PlainAttention(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                 std::size_t dim) {
    const std::size_t queries = q.size() / dim, keys = k.size() / dim;
    const double scale = 1 / std::sqrt(static_cast<double>(dim));
    for (std::size_t i = 0; i < queries; ++i) {
      std::vector<double> weights(keys), rounded(keys);
      double total = 0, rounded_total = 0;
      for (std::size_t j = 0; j < keys; ++j) {
        double product = 0;
        for (std::size_t d = 0; d < dim; ++d) product += q[i * dim + d] * k[j * dim + d];
        total += weights[j] = std::exp(product * scale);
        rounded_total += rounded[j] = std::exp(through_bf16(through_bf16(product) * scale));
      }
      for (std::size_t d = 0; d < dim; ++d) {
        double want = 0, plain = 0;
        for (std::size_t j = 0; j < keys; ++j) {
          want += weights[j] / total * v[j * dim + d];
          plain += through_bf16(rounded[j] / rounded_total) * v[j * dim + d];
        }
        exact.push_back(want);
        error = std::max(error, std::abs(through_bf16(plain) - want));
        largest = std::max(largest, std::abs(want));
      }
    }
  }

  double allowed() const { return 2 * error + 2 * 0x1p-8 * largest; }
  double error_of(const std::vector<double>& got) const {
    double found = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) found = std::max(found, std::abs(got[i] - exact[i]));
    return found;
  }
};

}  // namespace kiln::test
