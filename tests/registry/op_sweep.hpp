#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/inspection/comparison.hpp"
#include "registry/inspection/random_call_inputs.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/validation.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/guarded_tensor.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {

inline constexpr int kMostFailures = 4;  // of one op: the first few tell the story

inline bool full_sweep() {
  return sweep_amount() == SweepAmount::full;
}

/// `few` in the everyday run, `some` in a whole sweep, ten times as many in a full one.
inline int random_calls(int few, int some) {
  switch (sweep_amount()) {
    case SweepAmount::part:
      return few;
    case SweepAmount::whole:
      return some;
    case SweepAmount::full:
      break;
  }
  return 10 * some;
}

enum class Layouts : std::uint8_t {
  dense,
  turned,  ///< matrices as they are or transposed, in rows that are longer than the matrix
  random,
};

/// One call to make and check.
struct Case {
  std::vector<TensorMeta> inputs;
  Attributes attributes;
  std::vector<InputRange> ranges = {};  ///< see Example
  Layouts layouts = Layouts::dense;
  bool may_repeat = true;  ///< random layouts show elements more than once
  bool random_config = false;
  bool special_values = false;
  bool in_place = false;
  bool pinned = false;  ///< inputs that may lie in pinned host memory do
};

class Sweep {
 public:
  Sweep(const OpSpec& spec, Device device, std::uint64_t seed)
      : spec_(spec), device_(device), target_(target_of(device)), random_(seed) {}

  /// False when the op refuses the inputs; failures are recorded as test failures.
  bool run(const Case& test) {
    std::vector<GuardedTensor> inputs;
    std::vector<TensorView> views;
    for (const TensorMeta& meta : test.inputs) {
      const bool may_repeat = test.may_repeat && !test.in_place && !is_changed(inputs.size());
      inputs.emplace_back(meta.dtype, meta.shape, layout(test.layouts, meta.shape, may_repeat));
      fill(inputs.back(), inputs.size() - 1, test);
      views.push_back(meta.absent ? TensorView{} : inputs.back().host_view());
    }
    const Attributes complete = complete_attributes(spec_, test.attributes);
    std::vector<TensorMeta> metas;
    try {
      metas = spec_.infer(views, complete);
    } catch (const UsageError&) {
      return false;
    }
    const std::vector<Tensor> addressed =
        fill_selecting_inputs(validated_call(spec_, views, complete, {.seen_on = Device::cpu()}), random_(),
                              {.spoiled = random_() % 4 != 0, .addressed = device_});
    for (GuardedTensor& tensor : inputs) tensor.remember();
    std::vector<Tensor> device_inputs, device_outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      device_inputs.push_back(test.inputs[i].absent                        ? Tensor{}
                              : test.pinned && input_spec(spec_, i).pinned ? inputs[i].upload_pinned(device_)
                                                                           : inputs[i].upload(device_));
    const std::vector<TensorView> device_views(device_inputs.begin(), device_inputs.end());
    const AddressedCopies copies = copy_addressed(
        validated_call(spec_, device_views, complete, {.stream = Stream::default_of(device_)}), Device::cpu());

    const bool in_place = test.in_place && !views.empty() && metas[0].shape == views[0].shape &&
                          (spec_.random_example ? metas[0].dtype == views[0].dtype
                                                : itemsize_bytes(metas[0].dtype) == itemsize_bytes(views[0].dtype));
    std::vector<GuardedTensor> outputs, expected;
    for (const TensorMeta& meta : metas) {
      outputs.emplace_back(meta.dtype, meta.shape, layout(test.layouts, meta.shape, false));
      expected.emplace_back(meta.dtype, meta.shape, dense_layout(meta.shape));
    }
    std::vector<TensorView> wanted, reference_inputs = views;
    for (const GuardedTensor& tensor : expected) wanted.push_back(tensor.host_view());
    std::vector<std::size_t> changed;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_changed(i) || test.inputs[i].absent) continue;
      changed.push_back(i);
      expected.emplace_back(test.inputs[i].dtype, test.inputs[i].shape, dense_layout(test.inputs[i].shape));
      expected.back().copy_elements(inputs[i]);
      reference_inputs[i] = input_spec(spec_, i).points_to ? copies.inputs[i] : expected.back().host_view();
    }
    spec_.reference({reference_inputs, wanted, complete});

    for (GuardedTensor& tensor : outputs) device_outputs.push_back(tensor.upload(device_));
    if (in_place) {
      TensorView view = device_inputs[0].view();
      view.dtype = metas[0].dtype;
      device_outputs[0] = Tensor(view, device_inputs[0].owner());
    }
    std::optional<Config> config;
    if (test.random_config) config = pick_config(device_inputs, device_outputs, complete);
    std::ostringstream call;
    call << "op " << spec_.name << " on " << to_string(device_) << (in_place ? ", in place" : "") << ", config "
         << (config.has_value() ? to_string(*config) : "default");
    for (const Tensor& tensor : device_inputs) call << "\n  input " << describe(tensor);
    for (const Tensor& tensor : device_outputs) call << "\n  output " << describe(tensor);
    for (const auto& [name, value] : test.attributes.entries()) call << "\n  " << name << " = " << to_string(value);
    try {
      dispatch_gpu_op(spec_.name, device_inputs, test.attributes,
                      {.outputs = device_outputs, .config = config.has_value() ? &*config : nullptr});
      synchronize(Stream::default_of(device_));
    } catch (const Error& error) {
      fail(call.str(), error.what());
      return true;
    }
    ++calls_;
    variants_.insert(chosen(device_inputs, device_outputs, complete).variant->name);
    for (GuardedTensor& tensor : inputs) tensor.download();
    for (GuardedTensor& tensor : outputs) tensor.download();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (const std::string damage = inputs[i].damage(is_changed(i) || (in_place && i == 0)); !damage.empty())
        fail(call.str(), is_changed(i) ? "written outside the elements: " + damage : "an input was written: " + damage);
    for (std::size_t i = 0; i < addressed.size(); ++i)
      if (const Comparison compared = compare_bytes(copies.originals[i].memory, copies.copies[i]); !compared.ok())
        fail(call.str(), std::to_string(compared.num_wrong) + " bytes at address " + std::to_string(i) + " are wrong");
    for (std::size_t i = 0; i < changed.size(); ++i)
      compare(call.str(), inputs[changed[i]], expected[outputs.size() + i], views);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (const std::string damage = outputs[i].damage(!(in_place && i == 0)); !damage.empty())
        fail(call.str(), "written outside the output: " + damage);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      compare(call.str(), in_place && i == 0 ? inputs[0] : outputs[i], expected[i], views);
    return true;
  }

  void report(std::uint64_t seed) const {
    EXPECT_GT(calls_, 0);
    std::cout << spec_.name << " on " << to_string(device_) << ": " << calls_ << " calls checked, seed " << seed
              << "\n";
  }

  /// Of the calls that were checked.
  const std::set<std::string>& variants() const { return variants_; }
  bool done() const { return failures_ >= kMostFailures; }
  std::mt19937_64& random() { return random_; }

 private:
  bool is_changed(std::size_t input) const { return input_spec(spec_, input).mutated; }

  InputRange range_of(std::size_t input) const {
    return input < spec_.input_ranges.size() ? spec_.input_ranges[input] : InputRange{};
  }

  Layout layout(Layouts layouts, const Dims& shape, bool may_repeat) {
    if (layouts == Layouts::random) return random_layout(shape, may_repeat, random_);
    if (layouts == Layouts::dense || shape.size() < 2) return dense_layout(shape);
    Layout result{shape, static_cast<std::int64_t>(random_() % 3)};
    const int row = shape.size() - 2, column = shape.size() - 1;
    const bool is_turned = random_() % 2 == 0;
    result.strides[is_turned ? row : column] = 1;
    std::int64_t stride = std::max<std::int64_t>(shape[is_turned ? row : column], 1) +
                          (random_() % 2 == 0 ? static_cast<std::int64_t>(random_() % 40) : 0);
    result.strides[is_turned ? column : row] = stride;
    stride *= std::max<std::int64_t>(shape[is_turned ? column : row], 1);
    for (int axis = row - 1; axis >= 0; --axis) {
      result.strides[axis] = stride;
      stride *= std::max<std::int64_t>(shape[axis], 1);
    }
    return result;
  }

  void fill(GuardedTensor& tensor, std::size_t input, const Case& test) {
    const DType dtype = tensor.host_view().dtype;
    if (input < test.ranges.size() && !is_floating(dtype)) return tensor.fill_integers(test.ranges[input], random_);
    const InputRange range = input < test.ranges.size() ? test.ranges[input] : range_of(input);
    if (!spec_.random_example) return tensor.fill_random(range, test.special_values, random_);
    // Ops that combine elements: a value near the dtype's limits would make the result depend on the order of rounding,
    // and a quarter of special values would make every result NaN.
    tensor.fill_random(range, false, random_);
    // An infinite weight times an element at the mean is NaN; rounded to either side of the mean, infinite.
    // So is an infinite value of a key that a row of attention does not see, or whose weight is too small for a float,
    // times that weight: which of these are multiplied at all is the tiles' choice. Of mla_decode's cache the latent
    // part is such a value, the rotary part behind it key alone.
    const bool is_decided_by_rounding =
        (spec_.name == "layer_norm" && spec_.inputs[input].name == "weight") ||
        (spec_.name.starts_with("attention") && spec_.inputs[input].name.starts_with("v"));
    const bool holds_values = spec_.name == "mla_decode" && spec_.inputs[input].name == "cache";
    const std::int64_t latent = holds_values ? test.inputs[0].shape[3] : 0;
    if (test.special_values && is_floating(dtype) && !is_decided_by_rounding)
      tensor.sprinkle_nonfinite(random_, latent);
  }

  /// Of the blocks that a view shows; gaps between them are nobody's.
  static Comparison compare_bytes(const TensorView& got, const TensorView& want) {
    const auto bytes_of = [](const Tensor& tensor) {
      return dense_view(tensor.data(), DType::u8, {tensor.numel() * itemsize_bytes(tensor.dtype())});
    };
    const Tensor got_host = to_device(got, Device::cpu()), want_host = to_device(want, Device::cpu());
    return kiln::compare(bytes_of(got_host), bytes_of(want_host), {});
  }

  Choice chosen(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs, const Attributes& attributes) {
    const std::vector<TensorView> input_views(inputs.begin(), inputs.end()),
        output_views(outputs.begin(), outputs.end());
    return choose(validated_call(spec_, input_views, attributes, {.outputs = output_views}), target_, nullptr);
  }

  Config pick_config(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                     const Attributes& attributes) {
    const std::vector<Config> configs = chosen(inputs, outputs, attributes).variant->space(target_).enumerate();
    return configs.at(random_() % configs.size());
  }

  /// `got` may hold the bytes of `want`'s dtype under another dtype of the same size (in place).
  void compare(const std::string& call, const GuardedTensor& got, const GuardedTensor& want,
               const std::vector<TensorView>& inputs) {
    const DType dtype = want.host_view().dtype;
    const Tolerance tolerance = spec_.tolerance_of(dtype, inputs.empty() ? nullptr : &inputs[0]);
    std::vector<std::int64_t> offsets;
    for_each_element(want.host_view(), [&](std::int64_t offset) { offsets.push_back(offset); });
    std::size_t index = 0, wrong = 0;
    std::string first;
    for_each_element(got.host_view(), [&](std::int64_t offset) {
      const std::byte* expected = want.at(offsets[index]);
      if (!element_matches(dtype, got.at(offset), expected, tolerance) && ++wrong == 1)
        first = "element " + std::to_string(index) + " is " + show_element(dtype, got.at(offset)) + ", expected " +
                show_element(dtype, expected) +
                operands(inputs, want.host_view().shape, static_cast<std::int64_t>(index));
      ++index;
    });
    if (wrong > 0) fail(call, std::to_string(wrong) + " of " + std::to_string(index) + " elements are wrong; " + first);
  }

  /// " (inputs 1.5, 2)" at one output element, where the inputs broadcast to the output and were not overwritten.
  static std::string operands(const std::vector<TensorView>& inputs, const Dims& shape, std::int64_t index) {
    std::string text;
    for (const TensorView& input : inputs) {
      std::int64_t rest = index, offset = 0;
      if (input.data == nullptr || input.ndim() > shape.size()) return {};  // an input that is left out has no memory
      for (int from_end = 1; from_end <= shape.size(); ++from_end) {
        const std::int64_t coordinate = rest % shape[shape.size() - from_end];
        rest /= shape[shape.size() - from_end];
        if (from_end > input.ndim()) continue;
        const int axis = input.ndim() - from_end;
        if (input.shape[axis] != 1 && coordinate >= input.shape[axis]) return {};
        if (input.shape[axis] > 1) offset += coordinate * input.strides[axis];
      }
      text +=
          (text.empty() ? " (inputs " : ", ") +
          show_element(input.dtype, static_cast<const std::byte*>(input.data) + offset * itemsize_bytes(input.dtype));
    }
    return text.empty() ? text : text + ")";
  }

  void fail(const std::string& call, const std::string& what) {
    ++failures_;
    ADD_FAILURE() << call << "\n" << what;
  }

  const OpSpec& spec_;
  Device device_;
  Target target_;
  std::mt19937_64 random_;
  int failures_ = 0;
  int calls_ = 0;
  std::set<std::string> variants_;
};

/// Shapes that broadcast to `shape`: leading dimensions dropped, others set to 1.
inline Dims broadcast_operand(const Dims& shape, std::mt19937_64& random) {
  Dims operand;
  const int dropped = random() % 3 == 0 ? static_cast<int>(random() % static_cast<unsigned>(shape.size() + 1)) : 0;
  for (int axis = dropped; axis < shape.size(); ++axis) operand.push_back(random() % 4 == 0 ? 1 : shape[axis]);
  return operand;
}

}  // namespace kiln::test
