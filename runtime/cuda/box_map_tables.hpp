#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/box_map.hpp"
#include "core/box_map_table.hpp"

namespace kiln::cuda {

/// The tables of tensor maps in a loaded kernel's memory (BoxMapTable), as far as they are filled. Slots are filled
/// once and never changed, so that launches that run need not be waited for. Thread-safe.
class BoxMapTables {
 public:
  /// `library` is the driver's handle of the kernel's code.
  BoxMapTables(void* library, std::string kernel_name) : library_(library), kernel_name_(std::move(kernel_name)) {}

  /// Fills the slots of `maps` in the current context. False, with nothing done, where another map has one of them.
  /// Distances that no tensor map has, and the second of two among `maps` with one slot, are left out. DeviceError.
  bool take(std::span<const BoxMap> maps);

 private:
  using LineBytes = std::array<std::int64_t, BoxMapTable::kSlots>;
  void write(const BoxMap& map, bool is_first);

  void* library_;
  std::string kernel_name_;
  std::mutex mutex_;
  std::map<std::string, LineBytes> filled_;  ///< by the table's symbol
};

}  // namespace kiln::cuda
