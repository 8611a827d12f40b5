#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/poisoned_pages.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {

inline std::ostream& operator<<(std::ostream& out, const Paged& shapes) {
  return out << "page " << shapes.page << ", " << shapes.queries << " queries, groups of " << shapes.group
             << ", heads of " << shapes.dim << " and " << shapes.value_dim << " " << name(shapes.dtype);
}
inline std::ostream& operator<<(std::ostream& out, const PagedLatents& shapes) {
  return out << "page " << shapes.page << ", " << shapes.queries << " queries, " << shapes.heads << " heads of "
             << shapes.latent << " and " << shapes.rotary << " " << name(shapes.dtype);
}

/// Of an op over pages, on every device, by calls that show whoever looks behind a length.
class PagedOpTest : public DevicesTest {
 protected:
  /// Results agree with the reference, and are the same bits twice.
  template <typename Shapes>
  void expect_right(const Shapes& shapes, const Lengths& lengths, const Attributes& attributes = {}) {
    for (const Device device : devices_) {
      const PoisonedCall call(shapes, lengths, attributes, ++seed_);
      const OpCase made(call.drawn(), device);
      const std::vector<Tensor> once = dispatch_gpu_op_all(call.op(), made.inputs(), made.attributes()),
                                again = dispatch_gpu_op_all(call.op(), made.inputs(), made.attributes());
      EXPECT_EQ(made.difference(once, Stream::default_of(device)), "")
          << shapes << ", lengths " << testing::PrintToString(lengths);
      expect_same_bits(once, again);
    }
  }

  /// A plan, and a graph with it, is made for shapes; lengths are on the device.
  template <typename Shapes>
  void expect_one_plan(const Shapes& shapes, const Attributes& attributes, std::initializer_list<Lengths> all_lengths) {
    for (const Device device : devices_) {
      std::optional<ResolvedOp> plan;
      for (const Lengths& lengths : all_lengths) {
        const PoisonedCall call(shapes, lengths, attributes, 3);
        const std::vector<Tensor> inputs = call.drawn().on(device);
        const std::vector<TensorView> views = views_of(inputs);
        if (!plan) plan = resolve(call.op(), views, call.drawn().attributes);
        const std::vector<Tensor> results = dense_tensors(plan->outputs(), Stream::default_of(device));
        (*plan)(views, views_of(results), Stream::default_of(device));
        expect_same_bits(results, dispatch_gpu_op_all(call.op(), inputs, call.drawn().attributes));
      }
    }
  }

  static void expect_same_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_EQ(values_of<std::uint8_t>(got[i]), values_of<std::uint8_t>(wanted[i])) << "output " << i;
  }

  std::uint64_t seed_ = 0;
};

}  // namespace kiln::test
