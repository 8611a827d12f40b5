#include "registry/tuning/selected_entries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "core/errors.hpp"
#include "ops/common/element.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

constexpr std::int64_t kNone = -1;

/// The entries of an input in rows, one entry for each of `columns`: those of the last dimension, or single ones.
class EntryRows {
 public:
  EntryRows(const TensorView& view, std::size_t columns) : view_(view), columns_(static_cast<std::int64_t>(columns)) {
    if (columns_ != 1 && (view.ndim() == 0 || view.shape[view.ndim() - 1] != columns_))
      throw InternalError(fmt::format("{} ranges were stated for {}", columns, describe(view)));
  }
  std::int64_t count() const { return view_.numel() / columns_; }
  std::byte* at(std::int64_t row, std::size_t column) const {
    std::int64_t rest = row * columns_ + static_cast<std::int64_t>(column), offset = 0;
    for (int axis = view_.ndim() - 1; axis >= 0; --axis) {
      offset += rest % view_.shape[axis] * view_.strides[axis];
      rest /= view_.shape[axis];
    }
    return static_cast<std::byte*>(view_.data) + offset * itemsize_bytes(view_.dtype);
  }
  std::int64_t value(std::int64_t row, std::size_t column) const {
    return common::load_element<std::int64_t>(at(row, column), view_.dtype);
  }
  void store(std::int64_t row, std::size_t column, std::int64_t value) const {
    common::store_element<std::int64_t>(at(row, column), view_.dtype, value);
  }

 private:
  const TensorView& view_;
  std::int64_t columns_;
};

/// Whether entries are one and the same in memory, as along a dimension that was expanded.
bool is_expanded(const TensorView& view) {
  for (int axis = 0; axis < view.ndim(); ++axis)
    if (view.shape[axis] > 1 && view.strides[axis] == 0) return true;
  return false;
}

/// The part of a range that the dtype holds.
SelectionRange representable(SelectionRange range, DType dtype) {
  if (dtype == DType::i32) range.high = std::min<std::int64_t>(range.high, std::numeric_limits<std::int32_t>::max());
  return range;
}

std::int64_t one_of(const SelectionRange& range, std::mt19937_64& random) {
  if (range.high < range.low) return kNone;
  return range.low +
         static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(range.high - range.low) + std::uint64_t{1}));
}

/// `count` different values of the range, in random order; fewer where there are no more.
std::vector<std::int64_t> different_ones(const SelectionRange& range, std::int64_t count, std::mt19937_64& random) {
  const std::int64_t available = std::max<std::int64_t>(range.high - range.low + 1, 0);
  std::vector<std::int64_t> values;
  if (available <= 2 * count) {
    values.resize(static_cast<std::size_t>(available));
    std::iota(values.begin(), values.end(), range.low);
    std::shuffle(values.begin(), values.end(), random);
    values.resize(static_cast<std::size_t>(std::min(count, available)));
    return values;
  }
  // A few out of many: a list of all slots of a large cache would take more memory than the call.
  std::unordered_set<std::int64_t> seen;
  while (static_cast<std::int64_t>(values.size()) < count)
    if (const std::int64_t value = one_of(range, random); seen.insert(value).second) values.push_back(value);
  return values;
}

/// Entries that share memory serve all columns at once, and can be no different ones.
void draw_expanded(const EntryRows& rows, std::span<const SelectionRange> ranges, std::mt19937_64& random) {
  SelectionRange common = ranges.front();
  for (const SelectionRange& range : ranges)
    common = {std::max(common.low, range.low), std::min(common.high, range.high), common.distinct || range.distinct};
  for (std::int64_t row = 0; row < rows.count(); ++row)
    for (std::size_t column = 0; column < ranges.size(); ++column)
      rows.store(row, column, common.distinct ? kNone : one_of(common, random));
}

/// Rows with an entry outside of its range.
SkippedWork entries_outside(const std::string& name, const TensorView& view, std::span<const SelectionRange> ranges) {
  const EntryRows rows(view, ranges.size());
  SkippedWork work{0, rows.count(), fmt::format("{} of '{}'", ranges.size() == 1 ? "entries" : "rows", name)};
  for (std::int64_t row = 0; row < work.total; ++row)
    for (std::size_t column = 0; column < ranges.size(); ++column)
      if (const std::int64_t value = rows.value(row, column);
          value < ranges[column].low || value > ranges[column].high) {
        ++work.skipped;
        break;
      }
  return work;
}

}  // namespace

void draw_entries(const TensorView& view, std::span<const SelectionRange> stated, std::mt19937_64& random) {
  std::vector<SelectionRange> ranges;
  for (const SelectionRange& range : stated) ranges.push_back(representable(range, view.dtype));
  const EntryRows rows(view, ranges.size());
  if (is_expanded(view)) return draw_expanded(rows, ranges, random);
  for (std::size_t column = 0; column < ranges.size(); ++column) {
    const SelectionRange& range = ranges[column];
    std::vector<std::int64_t> values;
    if (range.distinct) values = different_ones(range, rows.count(), random);
    for (std::int64_t row = 0; row < rows.count() && !range.distinct; ++row) values.push_back(one_of(range, random));
    if (range.ascending) std::ranges::sort(values);
    values.resize(static_cast<std::size_t>(rows.count()), kNone);
    for (std::int64_t row = 0; row < rows.count(); ++row)
      rows.store(row, column, values[static_cast<std::size_t>(row)]);
  }
}

std::optional<SkippedWork> skipped_work(const Call& call) {
  std::vector<Tensor> copies;
  std::vector<TensorView> views = call.inputs;
  std::optional<std::size_t> selecting;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const TensorView* const input = call.input(i);
    if (input == nullptr || !call.input_spec(i).selects) continue;
    if (!call.input_spec(i).mutated) selecting = i;
    if (input->device.is_cuda()) views[i] = copies.emplace_back(to_device(*input, Device::cpu()));
  }
  if (!selecting) return std::nullopt;
  const Call readable = call.over(views, call.outputs);
  const OpCall seen = readable.seen_by_spec();
  if (call.spec->skipped_work) return call.spec->skipped_work(seen);
  const InputSpec& input = call.input_spec(*selecting);
  return entries_outside(input.name, views[*selecting], input.selects(seen));
}

std::string to_string(const SkippedWork& work) {
  return fmt::format("{:.1f}% of the work: {} of {} {}", 100 * work.share(), work.skipped, work.total, work.what);
}

std::string skipped_text(const std::optional<SkippedWork>& work) {
  if (!work || work->skipped == 0) return {};
  return to_string(*work) + "; rates count it as done";
}

}  // namespace kiln
