#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/tensor_map.hpp"

namespace kiln {

/// Most kernel parameters: the hot path keeps pointers in arrays of this size, those of the call's tensors and then
/// those of its workspaces.
inline constexpr int kMaxArguments = 24;
inline constexpr int kMaxWorkspaces = 4;
inline constexpr int kMaxTensors = kMaxArguments - kMaxWorkspaces;

struct LaunchGeometry {
  std::array<std::int64_t, 3> grid{1, 1, 1};  ///< programs along each axis; axis 0 runs fastest
  std::int32_t num_warps = 4;                 ///< ignored on the CPU
  /// Dynamic shared memory; ignored on the CPU. An op's launch may leave it 0 for what Artifact::dynamic_shared_bytes
  /// says, which its plan then has.
  std::int32_t shared_bytes = 0;
  /// The kernel may start while the one before it on the stream still runs (programmatic dependent launch, sm_90 or
  /// newer): it runs griddepcontrol.wait before it touches any memory of the call. Ignored on the CPU.
  bool overlaps_previous = false;
  /// Of a call that is over in a few microseconds (Plan::is_brief): the calling thread of a CPU runs it alone, and
  /// nothing is timed for it. Set by the plan; ignored on a GPU.
  bool is_brief = false;
  /// Beside num_warps in a block, which copy for the program (CompileRequest::copy_warps); ignored on the CPU.
  std::int32_t copy_warps = 0;
  friend bool operator==(const LaunchGeometry&, const LaunchGeometry&) = default;
};

/// A kernel's parameters with everything but the tensors' addresses filled in. Built once per plan.
class ArgumentTemplate {
 public:
  /// The data pointer of tensor `tensor_index` of the call: outputs first, then inputs.
  void add_tensor(int tensor_index);
  /// A pointer to scratch memory of the call, aligned to 256 bytes and uninitialised.
  void add_workspace(int workspace_index);
  /// A parameter passed by value; its type must match the kernel's parameter exactly (size and alignment).
  template <typename T>
  void add_value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    add_bytes(&value, sizeof(T), alignof(T));
  }
  /// A `__grid_constant__ const` parameter of 128 bytes, aligned to 64: the tensor map itself. InternalError for a map
  /// that the hardware does not take. CUDA only.
  void add_tensor_map(const TensorMap& map);

  struct TensorMapSlot {
    int parameter_index;
    int pointer_index;  ///< where `data`, as bind takes it, holds the memory's address
    TensorMap map;
    friend bool operator==(const TensorMapSlot&, const TensorMapSlot&) = default;
  };
  std::span<const TensorMapSlot> tensor_maps() const noexcept { return tensor_maps_; }
  int size() const noexcept { return static_cast<int>(slots_.size()); }
  /// The bytes of a parameter that is passed by value, and whatever lies behind it; none for other parameters and for
  /// numbers that no parameter has.
  std::span<const std::byte> value(int parameter_index) const noexcept;
  /// Whether both pass the same; values are compared by their bytes, padding included.
  friend bool operator==(const ArgumentTemplate&, const ArgumentTemplate&) = default;

  /// Fills `parameters[i]` with the address of parameter i, tensor maps aside, which are the runtime's to encode
  /// (runtime/tensor_map.hpp). `data[t]` holds the pointer of tensor t and `data[kMaxTensors + w]` that of workspace w;
  /// it must outlive the launch call.
  void bind(void** data, void** parameters) const noexcept {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      parameters[i] = slots_[i].pointer_index >= 0 ? static_cast<void*>(&data[slots_[i].pointer_index])
                                                   : const_cast<std::byte*>(values_.data() + slots_[i].value_offset);
  }

 private:
  struct Slot {
    std::int32_t pointer_index;  ///< -1: a value, or a tensor map
    std::int32_t value_offset;
    friend bool operator==(const Slot&, const Slot&) = default;
  };
  void add_slot(Slot slot);
  void add_bytes(const void* bytes, std::size_t size, std::size_t alignment);
  std::vector<Slot> slots_;
  std::vector<std::byte> values_;
  std::vector<TensorMapSlot> tensor_maps_;
};

}  // namespace kiln
