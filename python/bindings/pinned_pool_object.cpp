#include "python/bindings/pinned_pool_object.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/quantity.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/attribute_dict.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/closeable.hpp"
#include "python/bindings/construction.hpp"
#include "python/bindings/gpu_presence.hpp"
#include "python/bindings/stream.hpp"
#include "python/bindings/stream_object.hpp"
#include "python/bindings/tensor_meta.hpp"
#include "python/bindings/tensor_object.hpp"
#include "runtime/device_info.hpp"
#include "runtime/transfer/pinned_pool.hpp"

namespace kiln::python {
namespace {

/// The blocks of a pool that tensors hold. Python's views of one, NumPy's or torch's, share no owner of C++'s with it;
/// that a view is there says that its block is, so its address can be no other block's.
class HeldBlocks {
 public:
  void add(const Tensor& tensor) {
    if (tensor.owner() == nullptr) return;
    const ByteRange range = byte_range(tensor);
    blocks_.insert_or_assign(range.begin, Block{range.end, tensor.owner()});
    if (blocks_.size() < 2 * size_after_forgetting_) return;
    std::erase_if(blocks_, [](const auto& entry) { return entry.second.owner.expired(); });
    size_after_forgetting_ = std::max<std::size_t>(blocks_.size(), 32);
  }

  /// The owner of the block that all of these bytes are in; null where there is none.
  std::shared_ptr<void> owner_of(ByteRange bytes) const {
    // A block that went may have been where two are now: only those that are held count.
    for (auto block = blocks_.upper_bound(bytes.begin); block != blocks_.begin();) {
      --block;
      if (std::shared_ptr<void> owner = block->second.owner.lock())
        return bytes.end <= block->second.end ? std::move(owner) : nullptr;
    }
    return nullptr;
  }

 private:
  struct Block {
    const std::byte* end;
    std::weak_ptr<void> owner;
  };
  std::map<const std::byte*, Block> blocks_;
  std::size_t size_after_forgetting_ = 32;
};

class PinnedPoolObject {
 public:
  PinnedPoolObject(Device device, const PinnedPoolOptions& options)
      : device_(device), pool_("PinnedPool", std::make_shared<PinnedPool>(device, options)) {}

  Device device() const noexcept { return device_; }
  void close() noexcept { pool_.close(); }
  bool is_closed() const noexcept { return pool_.is_closed(); }

  py::object empty(py::handle shape, py::handle dtype) {
    const std::shared_ptr<PinnedPool> pool = pool_.get();
    const Dims dims = dims_argument(shape);
    const DType type = dtype_argument(dtype);
    Tensor made;
    {
      const GilReleased released;
      made = pool->empty(dims, type);
    }
    blocks_.add(made);
    // The last tensor of a pool that is gone waits for the work that was recorded on its block.
    const Tensor shared(made.view(), made.owner() == nullptr ? nullptr : own_without_gil(made.owner()));
    return make_tensor_object(shared, Stream::default_of(Device::cpu()));
  }

  void record(py::handle array, py::handle stream) {
    const std::shared_ptr<PinnedPool> pool = pool_.get();
    const Stream where = stream_argument(stream, device_, library_of_streams());
    if (array.is_none()) throw_type_error("array: expected an array, got None");
    const ArrayArgument argument = array_argument(array, "array");
    const ByteRange bytes = byte_range(argument.tensor);
    if (bytes.begin == bytes.end) return;
    const std::shared_ptr<void> owner = argument.tensor.device().is_cuda() ? nullptr : blocks_.owner_of(bytes);
    if (owner == nullptr)
      throw_value_error(
          fmt::format("array: {} is not in memory of this pool; give what its empty() returned, or a view of that",
                      describe(argument.tensor)));
    const GilReleased released;
    pool->record(Tensor(argument.tensor.view(), owner), where);
  }

  void trim(py::handle keep_bytes) {
    const std::shared_ptr<PinnedPool> pool = pool_.get();
    const std::int64_t keep = integer_argument(keep_bytes, "keep_bytes");
    if (keep < 0) throw_value_error(fmt::format("keep_bytes is {}; expected 0 or more", keep));
    const GilReleased released;
    pool->trim(keep);
  }

  PinnedPoolStatistics statistics() const {
    const std::shared_ptr<PinnedPool> pool = pool_.get();
    const GilReleased released;
    return pool->statistics();
  }

  std::string repr() const {
    if (is_closed()) return fmt::format("<kiln.PinnedPool {}, closed>", to_string(device_));
    const PinnedPoolStatistics now = statistics();
    return fmt::format("<kiln.PinnedPool {}: {} in use, {} pending, {} cached>", to_string(device_),
                       format_bytes(now.in_use_bytes), format_bytes(now.pending_bytes), format_bytes(now.cached_bytes));
  }

 private:
  Device device_;
  Closeable<PinnedPool> pool_;
  HeldBlocks blocks_;  ///< needs the GIL
};

std::unique_ptr<PinnedPoolObject> make_pool(const py::object& device, py::handle alignment_bytes,
                                            py::handle max_cached_bytes, bool numa_local) {
  const Device place = device_or_default(device);
  require_gpu(place, kCpuServesToo);
  PinnedPoolOptions options;
  options.alignment_bytes = integer_argument(alignment_bytes, "alignment_bytes");
  options.max_cached_bytes = integer_argument(max_cached_bytes, "max_cached_bytes");
  options.is_numa_local = numa_local;
  const GilReleased released;
  return std::make_unique<PinnedPoolObject>(place, options);
}

void bind_statistics(py::module_& module) {
  using Statistics = PinnedPoolStatistics;
  py::class_<Statistics> type(module, "PinnedPoolStatistics", "What a kiln.PinnedPool holds at one moment.",
                              py::is_final());
  type.def_readonly("in_use_bytes", &Statistics::in_use_bytes, "Held by tensors and their views.")
      .def_readonly("pending_bytes", &Statistics::pending_bytes, "Let go of while a stream was still using them.")
      .def_readonly("cached_bytes", &Statistics::cached_bytes, "Ready for reuse.")
      .def_readonly("peak_bytes", &Statistics::peak_bytes, "The most that all three together came to.")
      .def_readonly("allocations", &Statistics::allocations, "Blocks that the system was asked for.")
      .def_readonly("reuses", &Statistics::reuses, "Blocks that were handed out again.");
  define_dict(type, {"in_use_bytes", "pending_bytes", "cached_bytes", "peak_bytes", "allocations", "reuses"});
}

}  // namespace

void bind_pinned_pool(py::module_& module) {
  bind_statistics(module);
  const PinnedPoolOptions defaults;
  py::class_<PinnedPoolObject> type(
      module, "PinnedPool",
      "PinnedPool(device=None, *, alignment_bytes=4096, max_cached_bytes=8 << 30, numa_local=True)\n\nPage-locked CPU "
      "memory for one GPU's transfers; of the CPU ordinary memory, so that one program serves both. Without a device "
      "it "
      "is the first GPU's, or the CPU's where there is none. Blocks are reused for requests of as many pages, once the "
      "work that was recorded on them is done. ValueError for an alignment that is no power of two from 4096 on; "
      "DeviceError where the GPU is absent.",
      py::is_final());
  type.attr("__module__") = "kiln";
  construct_with(type, py::cpp_function(&make_pool, py::name("PinnedPool"), py::arg("device") = py::none(),
                                        py::kw_only(), py::arg("alignment_bytes") = defaults.alignment_bytes,
                                        py::arg("max_cached_bytes") = defaults.max_cached_bytes,
                                        py::arg("numa_local") = defaults.is_numa_local));
  type.def_property_readonly(
          "device", [](const PinnedPoolObject& self) { return to_string(self.device()); }, "\"cpu\", \"cuda:0\".")
      .def("empty", &PinnedPoolObject::empty, py::arg("shape"), py::arg("dtype") = "f32",
           "An uninitialised kiln.Tensor on the CPU, dense; its numpy() is a view. The block is the pool's again when "
           "the tensor and all views of it are gone. DeviceError when memory is short.")
      .def("record", &PinnedPoolObject::record, py::arg("array"), py::arg("stream") = py::none(),
           "Marks the work on `stream` so far as using the memory of `array`, which is a tensor of this pool or a view "
           "of one, of any library. Kiln's own transfers need no mark: they hold their arrays. ValueError for other "
           "memory, and while the stream is being captured.")
      .def("trim", &PinnedPoolObject::trim, py::arg("keep_bytes") = 0,
           "Gives cached memory back to the system until at most `keep_bytes` of it stay.")
      .def("statistics", &PinnedPoolObject::statistics, "The kiln.PinnedPoolStatistics of this moment.")
      .def("__repr__", &PinnedPoolObject::repr);
  define_closing(
      type,
      "Gives cached memory back. Tensors and views of the pool stay what they are, and give theirs back when "
      "they go.");
}

}  // namespace kiln::python
