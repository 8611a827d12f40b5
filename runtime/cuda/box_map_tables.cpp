#include "runtime/cuda/box_map_tables.hpp"

#include <cstddef>

#include "core/tensor_map.hpp"
#include "runtime/backend.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/tensor_map.hpp"

namespace kiln::cuda {
namespace {

static_assert(sizeof(BoxMapTable::Map) == sizeof(EncodedTensorMap));

/// The map that core/box_map_table.hpp describes.
TensorMap tensor_map(const BoxMap& map) {
  const BoxForm& form = map.form;
  TensorMap result;
  result.dtype = form.rounds_to_tf32 ? DType::f32 : unsigned_dtype(form.element_bytes);
  result.rounds_to_tf32 = form.rounds_to_tf32;
  result.rank = 4;
  result.extents = {form.elements, form.lines, std::int64_t{BoxMapTable::kNearPlaces} + 1, BoxMapTable::kFarPlaces};
  result.strides_bytes = {map.line_bytes, BoxMapTable::kPlaceBytes, std::int64_t{1} << BoxMapTable::kFarBits};
  result.box = {form.elements, form.lines, 1, 1};
  switch (form.elements * form.element_bytes) {
    case 128:
      result.swizzle = TensorMapSwizzle::b128;
      break;
    case 64:
      result.swizzle = TensorMapSwizzle::b64;
      break;
    case 32:
      result.swizzle = TensorMapSwizzle::b32;
      break;
    default:
      result.swizzle = TensorMapSwizzle::none;
  }
  result.l2_promotion = TensorMapPromotion::b256;
  return result;
}

bool has_tensor_map(const BoxMap& map) {
  const std::int64_t reach_bytes = map.form.lines * map.line_bytes + BoxMapTable::kOrigin;
  return map.line_bytes > 0 && map.line_bytes <= BoxMapTable::kMostLineBytes &&
         reach_bytes <= BoxMapTable::kLeastAddress && tensor_map_problem(tensor_map(map)).empty();
}

}  // namespace

bool BoxMapTables::take(std::span<const BoxMap> maps) {
  const std::lock_guard lock(mutex_);
  const auto is_taken = [&](const BoxMap& map) {
    const auto found = filled_.find(map.form.table);
    if (found == filled_.end()) return false;
    const std::int64_t there = found->second[static_cast<std::size_t>(BoxMapTable::slot(map.line_bytes))];
    return there != 0 && there != map.line_bytes;
  };
  for (const BoxMap& map : maps)
    if (has_tensor_map(map) && is_taken(map)) return false;
  for (const BoxMap& map : maps) {
    if (!has_tensor_map(map) || is_taken(map)) continue;
    const auto [table, is_first] = filled_.try_emplace(map.form.table, LineBytes{});
    std::int64_t& line_bytes = table->second[static_cast<std::size_t>(BoxMapTable::slot(map.line_bytes))];
    if (line_bytes == map.line_bytes) continue;
    try {
      write(map, is_first);
    } catch (...) {
      if (is_first) filled_.erase(table);
      throw;
    }
    line_bytes = map.line_bytes;
  }
  return true;
}

void BoxMapTables::write(const BoxMap& map, bool is_first) {
  auto* const table =
      static_cast<std::byte*>(find_global(library_, map.form.table.c_str(), sizeof(BoxMapTable), kernel_name_));
  if (table == nullptr) return;
  const auto encode_at = [&](int slot, void* address) {
    EncodedTensorMap encoded;
    CudaBackend::encode_tensor_map(&encoded, tensor_map(map), address);
    write_global(table + offsetof(BoxMapTable, maps) + static_cast<std::size_t>(slot) * sizeof encoded, &encoded,
                 sizeof encoded);
  };
  if (is_first) encode_at(BoxMapTable::kNothing, table);
  const int slot = BoxMapTable::slot(map.line_bytes);
  encode_at(slot, reinterpret_cast<void*>(std::uintptr_t{BoxMapTable::kOrigin}));
  // The map before the key by which a kernel finds it: another thread's launch may be looking.
  const unsigned int key =
      static_cast<unsigned int>(map.line_bytes) | (map.follows_stores ? BoxMapTable::kFollowsStores : 0);
  write_global(table + offsetof(BoxMapTable, keys) + static_cast<std::size_t>(slot) * sizeof key, &key, sizeof key);
}

}  // namespace kiln::cuda
