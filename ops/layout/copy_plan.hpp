#pragma once

#include <cstdint>
#include <string>

#include "ops/common/strided_walk.hpp"
#include "ops/layout/iteration.hpp"
#include "ops/op_spec.hpp"

namespace kiln::layout {

/// Every element of one view written to its place in another of the same shape.
struct Copy {
  DType out_dtype;
  DType in_dtype;
  std::int64_t out_offset = 0;  ///< of the first element visited from the data pointer, in elements
  std::int64_t in_offset = 0;
  common::StridedWalk walk;  ///< operand 0 is the output; its strides are not negative
};

/// UsageError(value) for an output whose elements share memory. `out_offset` elements lie before `out` in its tensor.
Copy make_copy(const TensorView& out, const TensorView& in, std::int64_t out_offset = 0);

/// Memory is written in sectors of so many bytes.
inline constexpr std::int64_t kSectorBytes = 32;
/// Bytes of an interleaved row at most.
inline constexpr std::int64_t kMostInterleavedBytes = 512;

/// The kernels that copy, in order of preference.
enum class CopyKind { contiguous, interleaved, transposed, indexed, strided };
inline constexpr CopyKind kCopyKinds[] = {CopyKind::contiguous, CopyKind::interleaved, CopyKind::transposed,
                                          CopyKind::indexed, CopyKind::strided};

/// Which of them serves a copy.
CopyKind kind_of(const Copy& copy, DeviceType device);

std::string kind_name(CopyKind kind);
std::string kind_doc(CopyKind kind);
/// Qualified name; a cast between transposed layouts has one of its own, which its launch names.
std::string kernel_name(CopyKind kind);

/// Bytes of an element of the wider operand.
std::int64_t widest_bytes(const Copy& copy);
/// Whether an operand's first element and everything but its dense dimension step by multiples of `bytes`.
bool steps_by(const Copy& copy, ops::CopyOperand operand, std::int64_t bytes);
/// For blocks of `block_rows` x `block_columns`; columns are the output's innermost dimension.
ops::CopyIteration copy_iteration(const Copy& copy, std::int64_t block_rows, std::int64_t block_columns);
/// Elements that a thread of a strided GPU kernel accesses at once: as many as keep every access of the dense operands
/// aligned when their data pointers are, and one where too few tiles are full.
std::int64_t vector_width(const Copy& copy, const ops::CopyIteration& iteration, std::int64_t block_rows,
                          std::int64_t block_columns);

/// Where a copy goes: a tensor of the call, or else a workspace of the plan.
struct CopyDestination {
  int tensor = -1;
  int workspace = -1;
};

/// The launch that copies tensor `in_tensor` of the call. UsageError(value) where `op` would
/// need more programs than a GPU's grid has.
KernelLaunch make_launch(CopyKind kind, const std::string& op, const Copy& copy, const Config& config,
                         const Target& target, CopyDestination destination, int in_tensor);

}  // namespace kiln::layout
