#include "registry/tuning/output_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "compiler/kernel_source.hpp"
#include "registry/dispatch/enqueue.hpp"
#include "registry/dispatch/matching_tensors.hpp"
#include "registry/plan/build_plan.hpp"
#include "registry/plan/call.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

constexpr std::int64_t kBlockSize = 1024;
/// Enough for every processor of a GPU, and few enough that their two atomic operations cost nothing.
constexpr std::int64_t kMostPrograms = 1024;

/// Of no registry: whoever compares has it, and nobody calls it by name.
OpSpec make_spec() {
  OpSpec spec;
  spec.name = "output_comparison";
  spec.doc = "how many elements of two tensors differ";
  spec.inputs = {{.name = "wanted", .doc = ""},
                 {.name = "got", .doc = ""},
                 {.name = "found", .doc = "", .mutated = true, .dtypes = {DType::i64}}};
  spec.attributes = {{.name = "relative", .fallback = 0.0, .doc = ""},
                     {.name = "absolute", .fallback = 0.0, .doc = ""}};
  spec.dtypes.assign(kAllDTypes.begin(), kAllDTypes.end());
  spec.aliasing = Aliasing::any;
  spec.infer = [](const CallInputs&, const Attributes&) { return std::vector<TensorMeta>{}; };
  Variant variant;
  variant.name = "only";
  variant.source = embedded_source("ops/common/kernel_comparison.hpp");
  variant.kernel = "kiln::ops::output_comparison_kernel";
  variant.serves = [](const OpCall&, const Target&) { return true; };
  variant.space = [](const Target&) { return ConfigSpace{{{"BLOCK_SIZE", {kBlockSize}}}, {}}; };
  variant.default_config = [](const OpCall&, const Target&) { return Config{{"BLOCK_SIZE", kBlockSize}}; };
  variant.plan = [](const OpCall& call, const Config&, const Target&) {
    const std::int64_t n = call.inputs[0].numel();
    LaunchPlan plan;
    KernelLaunch& launch = plan.launches.emplace_back();
    launch.template_arguments = {call.inputs[0].dtype, kBlockSize};
    launch.geometry.grid[0] = std::min((n + kBlockSize - 1) / kBlockSize, kMostPrograms);
    for (const int tensor : {0, 1, 2}) launch.arguments.add_tensor(tensor);
    launch.arguments.add_value(n);
    for (const char* bound : {"relative", "absolute"})
      launch.arguments.add_value(std::get<double>(*call.attributes.find(bound)));
    return plan;
  };
  spec.variants.push_back(std::move(variant));
  return spec;
}

const OpSpec& comparison_spec() {
  static const auto* const spec = new OpSpec(make_spec());  // plans refer to it, and may be destroyed at exit
  return *spec;
}

/// Bytes that are no booleans, as memory has them that nobody wrote, are other numbers than those that are.
Tensor flat(const Tensor& tensor) {
  const DType dtype = tensor.dtype() == DType::bool_ ? DType::u8 : tensor.dtype();
  return {dense_view(tensor.data(), dtype, Dims{tensor.numel()}, tensor.device()), tensor.owner()};
}

}  // namespace

OutputComparison::OutputComparison(Tensor wanted, Tolerance tolerance, const Target& target, Stream stream)
    : wanted_(flat(wanted)), stream_(stream) {
  if (wanted_.numel() == 0) return;
  found_ = empty(Dims{2}, DType::i64, stream);
  memset_bytes(found_, 0, stream);
  const std::array<TensorView, 3> tensors{wanted_, wanted_, found_};
  const Attributes bounds{{"relative", 2 * tolerance.relative}, {"absolute", 2 * tolerance.absolute}};
  const Call call = validated_call(comparison_spec(), CallInputs(std::span<const TensorView>(tensors)), bounds,
                                   {.stream = stream, .has_memory = true});
  plan_ = build_plan(call, target, nullptr);
  count(wanted_);
}

std::string OutputComparison::difference(const Tensor& got) const {
  return plan_ == nullptr ? std::string() : count(flat(got));
}

std::string OutputComparison::count(const TensorView& got) const {
  const TensorView counted = dense_view(found_.data(), DType::i64, Dims{1}, found_.device());
  memset_bytes(counted, 0, stream_);
  const std::array<TensorView, 3> tensors{wanted_, got, found_};
  PlanTensors storage;
  enqueue(*plan_, matching_tensors(*plan_, tensors, {}, "compared", storage), stream_);
  synchronize(stream_);
  const std::int64_t differing = *to_device(counted, Device::cpu()).data_as<std::int64_t>();
  if (differing == 0) return {};
  return fmt::format("{} of {} elements differ from the default's", differing, wanted_.numel());
}

}  // namespace kiln
