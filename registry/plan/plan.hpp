#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/launch.hpp"
#include "ops/op_spec.hpp"
#include "registry/plan/kernel_cache.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "registry/plan/plan_report.hpp"
#include "runtime/tensor_map.hpp"

namespace kiln {

/// One call with everything decided but the addresses. Immutable and shared among threads. A plan serves every set of
/// pointers, since kernels look at alignment themselves, but for tensors with a tensor map: their data is aligned to
/// kTensorMapAlignmentBytes, as `extents` says.
struct Plan : std::enable_shared_from_this<Plan> {
  struct TensorSlot {
    DType dtype = DType::f32;
    Device device;
    Dims shape, strides;
    bool absent = false;  ///< an optional input that was left out
  };

  const OpSpec* spec = nullptr;
  Device device;
  std::vector<TensorSlot> tensors;    ///< outputs first, then inputs
  std::vector<MemoryExtent> extents;  ///< of `tensors`
  std::vector<TensorMeta> outputs;
  struct Step {
    std::shared_ptr<const LoadedKernel> loaded;
    LaunchGeometry geometry;
    ArgumentTemplate arguments;
    TensorMapSet tensor_maps;  ///< of `arguments`
  };
  std::vector<Step> steps;  ///< run in order; none when every output is empty
  std::vector<std::int64_t> workspace_offsets_bytes;
  std::int64_t workspace_bytes = 0;  ///< one allocation that holds all of them
  std::optional<LaunchCheck> check;
  struct Table {
    std::size_t tensor = 0;
    TensorView memory;  ///< what lies at each address, without data
  };
  std::vector<Table> tables;              ///< those of `tensors` whose elements are addresses
  std::vector<std::size_t> host_tensors;  ///< those in host memory that the GPU reads or writes itself
  PlanReport report;
  /// A call of one of Kiln's own ops on the CPU that is over in a few microseconds, so that to let go of a lock for its
  /// length costs more than it gives.
  bool is_brief = false;

  int num_outputs() const noexcept { return static_cast<int>(outputs.size()); }
};

/// The tensors of a call as enqueue takes them, outputs first.
using PlanTensors = std::array<const TensorView*, kMaxTensors>;
/// Pointers of a call as ArgumentTemplate::bind takes them: outputs first, then inputs, and from kMaxTensors on the
/// workspaces.
using CallPointers = std::array<void*, kMaxArguments>;

}  // namespace kiln
