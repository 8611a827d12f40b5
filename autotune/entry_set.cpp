#include "autotune/entry_set.hpp"

#include <algorithm>
#include <utility>

namespace kiln {

MergeOutcome EntrySet::add(TuningEntry offered, Conflict conflict) {
  using Kind = MergeOutcome::Kind;
  add_own_measurement(offered);
  auto& place = entries_[hash_of(offered.key)];
  const auto shared = std::make_shared<const TuningEntry>(std::move(offered));
  if (!place) {
    place = shared;
    return {Kind::added, shared, nullptr, "", std::nullopt};
  }
  const auto former = place;
  Preference preference{true, "asked for"};
  if (conflict == Conflict::better_evidence) preference = better_evidence(*former, *shared);
  TuningEntry merged = preference.second ? *shared : *former;
  merged.history = merge_histories(*former, *shared);
  place = std::make_shared<const TuningEntry>(std::move(merged));
  const Kind kind = preference.reason.empty() ? Kind::identical : preference.second ? Kind::replaced : Kind::kept;
  return {kind, shared, former, std::move(preference.reason), drift_between(*former, *shared)};
}

std::shared_ptr<const TuningEntry> EntrySet::find(const TuningKey& key) const {
  const auto found = entries_.find(hash_of(key));
  return found == entries_.end() || found->second->key != key ? nullptr : found->second;
}

std::optional<EntrySet::Nearest> EntrySet::find_nearest(const TuningKey& key) const {
  std::optional<Nearest> nearest;
  for (const auto& [hash, entry] : entries_) {
    const TuningKey& other = entry->key;
    const bool differs_in_shapes_only = other.op == key.op && other.variant == key.variant &&
                                        other.dtypes == key.dtypes && other.attributes == key.attributes &&
                                        other.device_model == key.device_model && other.processors == key.processors &&
                                        other.kernel_hash == key.kernel_hash && other.space_hash == key.space_hash;
    if (!differs_in_shapes_only) continue;
    const std::optional<double> distance = shape_distance(key.shapes, other.shapes);
    if (!distance) continue;
    const bool is_closer =
        !nearest || *distance < nearest->distance ||
        (*distance == nearest->distance && to_string(other.shapes) < to_string(nearest->entry->key.shapes));
    if (is_closer) nearest = {entry, *distance};
  }
  return nearest;
}

std::size_t EntrySet::remove_if(const std::function<bool(const TuningEntry&)>& unwanted) {
  return std::erase_if(entries_, [&](const auto& item) { return unwanted(*item.second); });
}

std::vector<std::shared_ptr<const TuningEntry>> EntrySet::sorted() const {
  std::vector<std::pair<std::string, std::shared_ptr<const TuningEntry>>> named;
  named.reserve(entries_.size());
  // The hash tells apart what the text leaves out: processors, sources, spaces.
  for (const auto& [hash, entry] : entries_) named.emplace_back(to_string(entry->key) + hash.hex(), entry);
  std::ranges::sort(named, {}, [](const auto& item) -> const std::string& { return item.first; });
  std::vector<std::shared_ptr<const TuningEntry>> entries;
  entries.reserve(named.size());
  for (auto& [text, entry] : named) entries.push_back(std::move(entry));
  return entries;
}

}  // namespace kiln
