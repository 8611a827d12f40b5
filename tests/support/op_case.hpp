#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "registry/inspection/comparison.hpp"
#include "registry/inspection/random_call_inputs.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/validation.hpp"
#include "runtime/memory.hpp"
#include "runtime/stream.hpp"

/// Calls of any op: what sweeps, threads and the stress program make.
namespace kiln::test {

/// An example's inputs, without memory; absent ones stay so.
inline std::vector<TensorView> views_of(const Example& example, Device device = Device::cpu()) {
  std::vector<TensorView> views;
  for (const TensorMeta& meta : example.inputs)
    views.push_back(meta.absent ? TensorView{} : dense_view(nullptr, meta.dtype, meta.shape, device));
  return views;
}
inline std::vector<TensorView> views_of(std::span<const Tensor> tensors) {
  return {tensors.begin(), tensors.end()};
}

/// Dense ones, of nothing in particular; absent ones stay so.
inline std::vector<Tensor> dense_tensors(std::span<const TensorMeta> metas, Stream stream) {
  std::vector<Tensor> tensors;
  for (const TensorMeta& meta : metas)
    tensors.push_back(meta.absent ? Tensor{} : empty(meta.shape, meta.dtype, stream));
  return tensors;
}

/// A call of the op's own making, or where it makes none an example.
inline Example random_call(const OpSpec& spec, std::mt19937_64& random) {
  return spec.random_example ? spec.random_example(random) : spec.examples[random() % spec.examples.size()];
}

/// A call with random inputs in the host's memory.
struct DrawnCall {
  const OpSpec& spec;
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  std::vector<Tensor> addressed;  ///< what lies at the inputs' addresses
  Attributes attributes;          ///< complete

  DrawnCall(const OpSpec& op, const Example& example, std::uint64_t seed, bool spoiled = false)
      : spec(op),
        tensors(dense_tensors(example.inputs, Stream::default_of(Device::cpu()))),
        views(views_of(tensors)),
        attributes(complete_attributes(spec, example.attributes)) {
    addressed = fill_random_inputs(spec, views, attributes, seed, {.ranges = example.ranges, .spoiled = spoiled});
  }
  OpCall call() const { return {views, {}, attributes}; }
  Call validated() const { return validated_call(spec, views, attributes, {.seen_on = Device::cpu()}); }
  std::vector<Tensor> on(Device device) const {
    std::vector<Tensor> inputs;
    for (const Tensor& tensor : tensors) inputs.push_back(is_absent(tensor) ? tensor : to_device(tensor, device));
    return inputs;
  }
};

/// A call with fixed inputs on a device, and what it must give by the reference. Threads may share it: none changes
/// anything of it.
class OpCase {
 public:
  /// Fills inputs from `seed`. UsageError for an example that the op refuses.
  OpCase(const OpSpec& spec, const Example& example, Device device, std::uint64_t seed)
      : OpCase(DrawnCall(spec, example, seed, /*spoiled=*/true), example.attributes, device) {}
  /// A call whose inputs were filled in.
  OpCase(const DrawnCall& drawn, Device device) : OpCase(drawn, drawn.attributes, device) {}
  const std::string& op() const noexcept { return spec_->name; }
  const Attributes& attributes() const noexcept { return attributes_; }
  const std::vector<Tensor>& inputs() const noexcept { return inputs_; }

  /// Empty, or what is wrong with results whose work was enqueued on `stream`; waits for it. `slack`: times the
  /// tolerance.
  std::string difference(const std::vector<Tensor>& results, Stream stream, double slack = 1) const {
    if (results.size() != expected_.size())
      return fmt::format("{} results, expected {}", results.size(), expected_.size());
    std::vector<Tensor> host;
    for (const Tensor& result : results) {
      host.push_back(empty(result.shape(), result.dtype(), Device::cpu()));
      copy(host.back(), result, stream);
    }
    synchronize(stream);
    for (std::size_t i = 0; i < host.size(); ++i) {
      const TensorView& expected = expected_[i].view();
      const auto size_bytes = static_cast<std::size_t>(expected.numel() * itemsize_bytes(expected.dtype));
      if (size_bytes == 0 || std::memcmp(host[i].data(), expected.data, size_bytes) == 0) continue;
      Tolerance tolerance = spec_->tolerance(expected.dtype);
      tolerance.relative *= slack;
      tolerance.absolute *= slack;
      const Comparison compared = compare(host[i], expected, tolerance);
      if (!compared.ok())
        return fmt::format("{} of {} elements of result {} are wrong, at {} {} instead of {}", compared.num_wrong,
                           compared.num_elements, i, coordinates(compared.worst_index, expected.shape),
                           format_element(compared.worst_actual, expected.dtype),
                           format_element(compared.worst_expected, expected.dtype));
    }
    return {};
  }

 protected:
  OpCase(const DrawnCall& drawn, Attributes attributes, Device device)
      : spec_(&drawn.spec), attributes_(std::move(attributes)), inputs_(drawn.on(device)) {
    const std::vector<Tensor> wanted =
        dense_tensors(spec_->infer(drawn.views, drawn.attributes), Stream::default_of(Device::cpu()));
    std::vector<Tensor> referred = drawn.tensors;  // the reference changes what the op changes
    for (std::size_t i = 0; i < referred.size(); ++i)
      if (is_changed(i)) referred[i] = to_device(drawn.tensors[i], Device::cpu());
    spec_->reference({views_of(referred), views_of(wanted), drawn.attributes});
    expected_ = wanted.empty() ? changed(referred) : wanted;
  }

  bool is_changed(std::size_t input) const {
    return input_spec(*spec_, input).mutated && (inputs_.empty() || !is_absent(inputs_[input]));
  }
  std::vector<Tensor> changed(const std::vector<Tensor>& inputs) const {
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (is_changed(i)) results.push_back(inputs[i]);
    return results;
  }

  const OpSpec* spec_;
  Attributes attributes_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> expected_;  ///< on the CPU
};

}  // namespace kiln::test
