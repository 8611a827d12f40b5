#include "registry/inspection/benchmarked_call.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "registry/tuning/selected_entries.hpp"
#include "runtime/event_timer.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

/// On `place`, with copies of the inputs that the op changes there, or of all.
RepeatedCall repeated(const Call& call, Stream place, bool copies_all) {
  RepeatedCall result{copy_addressed(call, place.device), {}, {}};
  std::vector<TensorView> inputs = result.addressed.inputs, outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorView* const input = call.input(i);
    if (input == nullptr || call.input_spec(i).points_to) continue;
    if (copies_all || (call.input_spec(i).mutated && input->device == place.device))
      inputs[i] = result.owned.emplace_back(to_device(*input, place.device));
  }
  for (const TensorMeta& meta : call.metas)
    outputs.push_back(result.owned.emplace_back(empty(meta.shape, meta.dtype, place)).view());
  result.call = call.over(inputs, outputs);
  return result;
}

}  // namespace

BenchmarkedCall::BenchmarkedCall(const Call& call, const DispatchOptions& options, MeasuringPolicy policy)
    : op_(resolve(call, options)),
      repeated_(repeated(call, *call.stream, /*copies_all=*/false)),
      skipped_(skipped_work(call)),
      timing_(op_, repeated_.call.inputs, repeated_.call.outputs, *call.stream, policy) {}

BenchmarkedReference::BenchmarkedReference(const Call& call) {
  if (!call.spec->reference)
    throw_not_implemented(fmt::format("op '{}' has no reference to compare with", call.spec->name));
  repeated_ = repeated(call, Stream::default_of(Device::cpu()), /*copies_all=*/true);
}

std::vector<double> BenchmarkedReference::samples_us(int count) const {
  const OpCall seen = repeated_.call.seen_by_spec();
  return time_us(Stream::default_of(Device::cpu()), [&] { repeated_.call.spec->reference(seen); },
                 {.warmup = 0, .samples = count});
}

}  // namespace kiln
