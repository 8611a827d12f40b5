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

bool is_small(std::span<const TensorMeta> metas) {
  return std::all_of(metas.begin(), metas.end(),
                     [](const TensorMeta& meta) { return num_elements(meta.shape) <= kMostElements; });
}

}  // namespace

void StressCase::Binding::run(const StressCase& of, Stream stream) const {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (of.is_changed(i)) copy(inputs[i], of.inputs_[i], stream);
  for (const Tensor& output : outputs) memset_bytes(output, kPoison, stream);
  op(views_of(inputs), views_of(outputs), stream);
}

std::vector<Tensor> StressCase::Binding::results(const StressCase& of) const {
  return outputs.empty() ? of.changed(inputs) : outputs;
}

StressCase::StressCase(const OpSpec& spec, const Example& example, Device device, std::uint64_t seed)
    : OpCase(spec, example, device, seed) {
  const Stream stream = Stream::default_of(device);
  const std::vector<Tensor> first = dispatch(stream);
  if (const std::string wrong = difference(first, stream); !wrong.empty())
    throw InternalError(fmt::format("the first call of op '{}' is wrong: {}", spec.name, wrong));
  for (std::size_t i = 0; i < first.size(); ++i) expected_[i] = to_device(first[i], Device::cpu());
}

std::vector<Tensor> StressCase::fresh_inputs(Stream stream) const {
  std::vector<Tensor> inputs = inputs_;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (is_changed(i)) {
      inputs[i] = empty(inputs_[i].shape(), inputs_[i].dtype(), stream);
      copy(inputs[i], inputs_[i], stream);
    }
  return inputs;
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
  // Atomic additions come in any order: other last bits.
  return OpCase::difference(results, stream, 2);
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
    const Example example = random_call(spec, random);
    if (!is_small(example.inputs)) continue;
    try {
      if (is_small(infer_outputs(spec.name, views_of(example), example.attributes)))
        cases.emplace_back(spec, example, device, random());
    } catch (const UsageError&) {
      continue;  // a random example may be one that the op refuses
    }
  }
  return cases;
}

}  // namespace kiln::test
