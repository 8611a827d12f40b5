#include "offload/packed_gather.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/registry.hpp"
#include "runtime/event.hpp"
#include "runtime/memory.hpp"
#include "runtime/transfer/pinned_pool.hpp"

namespace kiln {
namespace {

constexpr const char* kOp = "sparse_kv_gather";

/// Rows are counted in 32 bits: lists are made by one thread, and those of 64 take it a tenth of the whole call.
constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

struct RowPair {
  std::int32_t src, dst;
};
static_assert(sizeof(RowPair) == 2 * sizeof(std::int32_t), "lists of pairs are tensors of i32");

void require(bool holds, const std::string& what) {
  if (!holds) throw_value_error("PackedGather: " + what);
}

/// Everything about the call but its indices' values.
void check_call(const Tensor& dst, const Tensor& src, const Tensor& indices, Device device, Stream stream) {
  require(dst.device() == device, "'dst' is " + describe(dst) + ", expected a tensor on " + to_string(device));
  require(!src.device().is_cuda(),
          "'src' is " + describe(src) + ", expected CPU memory; between tensors of a GPU use the op sparse_kv_gather");
  require(!indices.device().is_cuda() || indices.device() == device,
          "'indices' is " + describe(indices) + ", expected a tensor on the CPU or on " + to_string(device));
  const TensorView views[] = {dst, src, indices};
  // With their memory: rows are packed before others are placed, so that tensors which overlap would be a race.
  validated_call(Registry::process().get(kOp), views, {}, {.has_memory = true, .seen_on = device});
  for (const Tensor* rows : {&dst, &src})
    require(rows->shape()[0] <= kMostRows,
            fmt::format("a tensor has {} rows, at most {} are supported", rows->shape()[0], kMostRows));
  require(stream.device == device, "the stream is of " + to_string(stream.device) + ", expected " + to_string(device));
  require(!is_capturing(stream),
          "the stream is being captured, and a graph cannot pack rows on the CPU: capture the op sparse_kv_gather");
}

/// Rows that are packed side by side; the last chunk has as many, some of which stay as they are.
struct Chunk {
  DType dtype;
  Dims shape;  ///< of all rows
  std::int64_t rows, size_bytes;

  Chunk(const Tensor& dst, std::int64_t wanted_bytes, std::int64_t most_rows) : dtype(dst.dtype()), shape(dst.shape()) {
    shape[0] = 1;
    const std::int64_t row_bytes = num_elements(shape) * itemsize_bytes(dtype);
    rows = std::clamp<std::int64_t>(wanted_bytes / std::max<std::int64_t>(row_bytes, 1), 1,
                                    std::max<std::int64_t>(most_rows, 1));
    shape[0] = rows;
    size_bytes = rows * row_bytes;
  }
  Tensor rows_in(const Tensor& memory) const {
    return {dense_view(memory.data(), dtype, shape, memory.device()), memory.owner()};
  }
  /// The pairs of chunk number `number` in a list of all chunks' pairs.
  Tensor pairs_in(const Tensor& list, std::int64_t number) const {
    return {dense_view(list.data_as<RowPair>() + number * rows, DType::i32, {1, rows, 2}, list.device()), list.owner()};
  }
};

/// Chunk by chunk, where rows come from and where they go: (row of src, place in the chunk), (place, row of dst). What
/// is missing from the last chunk is skipped.
struct ChunkLists {
  Tensor packing, placing;
  std::int64_t chunks = 0;
};

/// `indices` is dense; both lists have room for its pairs in whole chunks.
template <typename Index>
void fill_lists(ChunkLists& lists, const Tensor& indices, const Chunk& chunk, std::int64_t src_rows,
                std::int64_t dst_rows) {
  const auto* const values = indices.data_as<const Index>();
  auto *const packing = lists.packing.data_as<RowPair>(), *const placing = lists.placing.data_as<RowPair>();
  const std::int64_t pairs = indices.numel() / 2, topk = indices.shape()[1];
  std::int64_t count = 0;
  std::int32_t place = 0;
  const auto add = [&](std::int32_t src, std::int32_t dst) {
    packing[count] = {src, place};
    placing[count++] = {place, dst};
    place = place + 1 == chunk.rows ? 0 : place + 1;
  };
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int64_t src = values[2 * i], dst = values[2 * i + 1];
    if (src < 0 || dst < 0) continue;
    const auto refuse = [&](int side, std::int64_t row, std::int64_t rows) {
      throw_value_error(fmt::format(
          "PackedGather: 'indices'[{}, {}, {}] is {}, expected less than {}, the rows of '{}', or a negative number to "
          "skip the pair; nothing was copied",
          i / topk, i % topk, side, row, rows, side == 0 ? "src" : "dst"));
    };
    if (src >= src_rows) refuse(0, src, src_rows);
    if (dst >= dst_rows) refuse(1, dst, dst_rows);
    add(static_cast<std::int32_t>(src), static_cast<std::int32_t>(dst));
  }
  for (std::int64_t missing = (chunk.rows - place) % chunk.rows; missing > 0; --missing) add(-1, -1);
  lists.chunks = count / chunk.rows;
}

/// One of the chunks that are on their way.
struct Slot {
  Tensor packed;   ///< pinned
  Tensor arrived;  ///< on the device
  Event sent, placed;
};

}  // namespace

struct PackedGather::State {
  Device device;
  PackedGatherOptions options;
  PinnedPool pool;
  OwnedStream copies;

  State(Device on, const PackedGatherOptions& given) : device(on), options(given), pool(on), copies(on) {}

  ChunkLists make_lists(const Tensor& indices, const Chunk& chunk, std::int64_t src_rows, std::int64_t dst_rows) {
    const Tensor host = to_device(indices, Device::cpu());
    const Dims shape{(host.numel() / 2 + chunk.rows - 1) / chunk.rows * chunk.rows, 2};
    ChunkLists lists{pool.empty(shape, DType::i32), pool.empty(shape, DType::i32)};
    if (host.dtype() == DType::i32)
      fill_lists<std::int32_t>(lists, host, chunk, src_rows, dst_rows);
    else
      fill_lists<std::int64_t>(lists, host, chunk, src_rows, dst_rows);
    return lists;
  }

  void run(const Tensor& dst, const Tensor& src, const Chunk& chunk, const ChunkLists& lists, Stream stream) {
    const Tensor placing = empty(lists.placing.shape(), DType::i32, stream);
    std::vector<Slot> slots;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(lists.chunks, options.depth); ++i)
      slots.push_back({pool.empty({chunk.size_bytes}, DType::u8), empty({chunk.size_bytes}, DType::u8, stream),
                       Event(device), Event(device)});
    Event allocated(device);
    allocated.record(stream);
    allocated.wait(copies);
    try {
      copy(placing, lists.placing, copies);
      for (std::int64_t c = 0; c < lists.chunks; ++c) {
        Slot& slot = slots[static_cast<std::size_t>(c) % slots.size()];
        slot.sent.synchronize();  // the copy engine has read what was packed here before
        dispatch_gpu_op(kOp, {chunk.rows_in(slot.packed), src, chunk.pairs_in(lists.packing, c)});
        slot.placed.wait(copies);
        copy(slot.arrived, slot.packed, copies);
        slot.sent.record(copies);
        slot.sent.wait(stream);
        dispatch_gpu_op(kOp, {dst, chunk.rows_in(slot.arrived), chunk.pairs_in(placing, c)}, {}, {.stream = stream});
        slot.placed.record(stream);
      }
    } catch (...) {
      synchronize(copies);  // before the memory goes that it reads and writes
      throw;
    }
    pool.record(lists.placing, copies);
    for (const Slot& slot : slots) pool.record(slot.packed, copies);
  }
};

PackedGather::PackedGather(Device device, const PackedGatherOptions& options) {
  require(options.chunk_bytes >= 1, fmt::format("chunk_bytes is {}, expected 1 or more", options.chunk_bytes));
  require(options.depth >= 1, fmt::format("depth is {}, expected 1 or more", options.depth));
  state_ = std::make_unique<State>(device, options);
}

PackedGather::~PackedGather() = default;

void PackedGather::operator()(const Tensor& dst, const Tensor& src, const Tensor& indices, Stream stream) {
  check_call(dst, src, indices, state_->device, stream);
  const Chunk chunk(dst, state_->options.chunk_bytes, indices.numel() / 2);
  const ChunkLists lists = state_->make_lists(indices, chunk, src.shape()[0], dst.shape()[0]);
  if (lists.chunks > 0) state_->run(dst, src, chunk, lists, stream);
}

}  // namespace kiln
