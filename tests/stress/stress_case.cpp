#include "tests/stress/stress_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>

#include "core/errors.hpp"
#include "registry/inspection/comparison.hpp"
#include "registry/inspection/random_call_inputs.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/validation.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "runtime/memory.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kMostElements = 200'000;
constexpr std::uint8_t kPoison = 0xa5;

std::vector<TensorView> views_of(std::span<const Tensor> tensors) {
  return {tensors.begin(), tensors.end()};
}

std::vector<Tensor> dense_tensors(std::span<const TensorMeta> metas, Stream stream) {
  std::vector<Tensor> tensors;
  for (const TensorMeta& meta : metas)
    tensors.push_back(meta.absent ? Tensor{} : empty(meta.shape, meta.dtype, stream));
  return tensors;
}

bool is_small(std::span<const TensorMeta> metas) {
  return std::all_of(metas.begin(), metas.end(),
                     [](const TensorMeta& meta) { return num_elements(meta.shape) <= kMostElements; });
}

}  // namespace

void StressCase::Binding::run(const StressCase& of, Stream stream) const {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (input_spec(*of.spec_, i).mutated && !is_absent(inputs[i])) copy(inputs[i], of.inputs_[i], stream);
  for (const Tensor& output : outputs) memset_bytes(output, kPoison, stream);
  op(views_of(inputs), views_of(outputs), stream);
}

std::vector<Tensor> StressCase::Binding::results(const StressCase& of) const {
  return outputs.empty() ? of.changed(inputs) : outputs;
}

StressCase::StressCase(const OpSpec& spec, const Example& example, Device device, std::uint64_t seed)
    : spec_(&spec), attributes_(example.attributes) {
  const Stream cpu = Stream::default_of(Device::cpu()), stream = Stream::default_of(device);
  const std::vector<Tensor> host = dense_tensors(example.inputs, cpu);
  fill_random_inputs(spec, views_of(host), attributes_, seed, {.ranges = example.ranges, .spoiled = true});
  for (const Tensor& tensor : host) inputs_.push_back(is_absent(tensor) ? tensor : to_device(tensor, device));

  const Attributes complete = complete_attributes(spec, attributes_);
  const std::vector<Tensor> wanted = dense_tensors(spec.infer(views_of(host), complete), cpu);
  std::vector<Tensor> referred;  // the reference changes what the op changes
  for (std::size_t i = 0; i < host.size(); ++i)
    referred.push_back(!is_absent(host[i]) && input_spec(spec, i).mutated ? to_device(host[i], Device::cpu())
                                                                          : host[i]);
  spec.reference({views_of(referred), views_of(wanted), complete});
  expected_ = wanted.empty() ? changed(referred) : wanted;
  const std::vector<Tensor> first = dispatch(stream);
  if (const std::string wrong = difference(first, stream); !wrong.empty())
    throw InternalError(fmt::format("the first call of op '{}' is wrong: {}", spec.name, wrong));
  for (std::size_t i = 0; i < first.size(); ++i) expected_[i] = to_device(first[i], Device::cpu());
}

std::vector<Tensor> StressCase::fresh_inputs(Stream stream) const {
  std::vector<Tensor> inputs = inputs_;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (input_spec(*spec_, i).mutated && !is_absent(inputs[i])) {
      inputs[i] = empty(inputs_[i].shape(), inputs_[i].dtype(), stream);
      copy(inputs[i], inputs_[i], stream);
    }
  return inputs;
}

std::vector<Tensor> StressCase::changed(const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (input_spec(*spec_, i).mutated && !is_absent(inputs[i])) results.push_back(inputs[i]);
  return results;
}

std::vector<Tensor> StressCase::dispatch(Stream stream) const {
  return dispatch_gpu_op_all(spec_->name, fresh_inputs(stream), attributes_, {.stream = stream});
}

StressCase::Binding StressCase::bind(Stream stream) const {
  std::vector<Tensor> inputs = fresh_inputs(stream);
  ResolvedOp op = resolve(spec_->name, views_of(inputs), attributes_, {.stream = stream});
  std::vector<Tensor> outputs = dense_tensors(op.outputs(), stream);
  return {std::move(inputs), std::move(outputs), std::move(op)};
}

std::string StressCase::difference(const std::vector<Tensor>& results, Stream stream) const {
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
    // Atomic additions come in any order: other last bits.
    Tolerance tolerance = spec_->tolerance(expected.dtype);
    tolerance.relative *= 2;
    tolerance.absolute *= 2;
    const Comparison compared = compare(host[i], expected, tolerance);
    if (!compared.ok())
      return fmt::format("{} of {} elements of result {} are wrong, at {} {} instead of {}", compared.num_wrong,
                         compared.num_elements, i, coordinates(compared.worst_index, expected.shape),
                         format_element(compared.worst_actual, expected.dtype),
                         format_element(compared.worst_expected, expected.dtype));
  }
  return {};
}

std::vector<StressCase> make_stress_cases(Device device, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::string> names = Registry::process().names();
  std::shuffle(names.begin(), names.end(), random);
  std::vector<StressCase> cases;
  for (std::size_t at = 0; cases.size() < count && at < 20 * names.size(); ++at) {
    const OpSpec& spec = Registry::process().get(names[at % names.size()]);
    if (!spec.reference || spec.examples.empty()) continue;
    if (holds_addresses(spec)) continue;  // what lies there would be one memory for all threads
    const Example example =
        spec.random_example ? spec.random_example(random) : spec.examples[random() % spec.examples.size()];
    if (!is_small(example.inputs)) continue;
    std::vector<TensorView> views;
    for (const TensorMeta& meta : example.inputs)
      views.push_back(meta.absent ? TensorView{} : dense_view(nullptr, meta.dtype, meta.shape));
    try {
      if (is_small(infer_outputs(spec.name, views, example.attributes)))
        cases.emplace_back(spec, example, device, random());
    } catch (const UsageError&) {
      continue;  // a random example may be one that the op refuses
    }
  }
  return cases;
}

}  // namespace kiln::test
