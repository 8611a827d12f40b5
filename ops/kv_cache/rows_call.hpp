#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/common/call_parser.hpp"
#include "ops/kv_cache/iteration_rows.hpp"
#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

/// Inputs of sparse_kv_gather and kv_scatter: numbers of tensors of a call, which has no outputs.
enum RowsInput : int { kDst, kSrc, kIndices, kCounts, kSlotMap };

/// Which side lies in host memory that the GPU reads or writes itself.
enum class HostSide { none, src, dst };

/// What either op does: rows src[i] to dst[j] for the pairs (i, j) of `indices`.
struct RowsCall {
  ops::RowsIteration iteration;
  DType index = DType::i64, count = DType::i64, slot = DType::i64;  ///< of inputs that are not there: index's
  bool has_counts = false, has_slot_map = false;
  HostSide host = HostSide::none;
  std::int64_t host_bytes = 0;  ///< between the first row of that side and the end of the last
  std::int64_t max_sms = 0;     ///< 0: as many as pay
  bool check_bounds = false;
  std::string op;  ///< for messages
  /// The widest power of two up to 16 that divides rows, row strides, and, where it is 16, both addresses.
  std::int64_t alignment_bytes = 1;
};

/// UsageError for shapes, dtypes or strides that do not go together, naming `op`.
std::vector<TensorMeta> infer_rows(std::string_view op, const CallInputs& inputs, const Attributes& attributes);
RowsCall rows_call(const std::string& op, const OpCall& call);
using RowsParser = common::CallParser<RowsCall>;

}  // namespace kiln::kv_cache
