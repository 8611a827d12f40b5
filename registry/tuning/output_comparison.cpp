#include "registry/tuning/output_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

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

// A comparison of `wanted` with itself leaves the largest element in found[1], which those that follow read: bits of
// numbers that are not negative are in the order of the numbers.
constexpr const char* kSource = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void output_comparison(const T* wanted, const T* got, int64_t* found, int64_t n, double relative,
                                   double absolute) {
  const double scale = tl::bitcast<double>(tl::load(found + 1));
  const double bound = relative * scale > absolute ? relative * scale : absolute;
  int64_t differing = 0, largest = 0;
  for (int64_t begin = tl::program_id(0) * BLOCK_SIZE; begin < n; begin += tl::num_programs(0) * BLOCK_SIZE) {
    const auto offsets = begin + tl::arange<BLOCK_SIZE>();
    const auto mask = offsets < n;
    const auto x = tl::load(got + offsets, mask), y = tl::load(wanted + offsets, mask);
    if constexpr (tl::Floating<T>) {
      const auto u = tl::cast<double>(x), v = tl::cast<double>(y), size = tl::abs(v), apart = tl::abs(u - v);
      const auto close = (u == v) | ((apart < INFINITY) & (apart <= bound + relative * size)) |
                         (tl::isnan(u) & tl::isnan(v));
      differing += tl::sum(tl::cast<int32_t>(~close));
      const int64_t here = tl::bitcast<int64_t>(tl::max(tl::where(size < INFINITY, size, 0.0)));
      largest = here > largest ? here : largest;
    } else {
      differing += tl::sum(tl::cast<int32_t>(x != y));
    }
  }
  if (differing > 0) tl::atomic_add(found, differing);
  if (largest > 0) tl::atomic_max(found + 1, largest);
}
)";

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
  variant.source = {"output_comparison.hpp", kSource, {}};
  variant.kernel = "output_comparison";
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

Tensor flat(const Tensor& tensor) {
  return {dense_view(tensor.data(), tensor.dtype(), Dims{tensor.numel()}, tensor.device()), tensor.owner()};
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
