#include "autotune/database.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "autotune/database_content.hpp"
#include "core/disk_store.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

void add_entries(EntrySet& entries, const EntrySet& others) {
  for (const auto& entry : others.sorted()) entries.add(*entry);
}

/// As it will be read back, so that memory and disk never say two things.
TuningEntry as_read_back(const TuningEntry& entry) {
  TuningDocument document;
  document.entries.push_back(entry);
  document = parse_document(format_document(document));
  if (document.entries.size() == 1) return std::move(document.entries[0]);
  throw InternalError(fmt::format("tuning entry {} cannot be recorded: {}", to_string(entry.key),
                                  document.damaged.empty() ? document.problem : document.damaged[0].reason));
}

}  // namespace

TuningDatabase::TuningDatabase(const std::filesystem::path& folder, Clock::duration recheck)
    : folder_(folder), recheck_(recheck) {}

TuningDatabase& TuningDatabase::process() {
  // Never destroyed: threads may still dispatch while the process exits.
  static TuningDatabase& database = *new TuningDatabase([] {
    const std::filesystem::path root = default_cache_root();
    return root.empty() ? root : root / "tuning";
  }());
  return database;
}

std::string TuningDatabase::file_name(const std::string& device_model) {
  return database_file_name(device_model);
}

void TuningDatabase::load(Slot& slot, const std::string& name) const {
  const DatabaseFolder::Content file = folder_.read(name);
  DatabaseContent content = parse_content(name, file);
  slot.version = file.version;
  slot.read_problem = summary(folder_.path() / name, content);
  slot.is_whole = content.problem.empty();
  slot.damaged = std::move(content.damaged);
  // What was read while the file was whole still holds.
  if (!content.problem.empty()) add_entries(content.entries, *slot.entries);
  add_entries(content.entries, slot.unsaved);
  slot.entries = std::make_shared<const EntrySet>(std::move(content.entries));
}

TuningDatabase::Slot& TuningDatabase::fresh_slot(const std::string& device_model) {
  Slot& slot = slots_[device_model];
  const Clock::time_point now = Clock::now();
  if (now < slot.next_check) return slot;
  slot.next_check = now + recheck_;
  const std::string name = file_name(device_model);
  if (folder_.version(name) != slot.version) load(slot, name);
  return slot;
}

std::shared_ptr<const TuningEntry> TuningDatabase::find(const TuningKey& key) {
  const std::lock_guard guard(mutex_);
  return fresh_slot(key.device_model).entries->find(key);
}

std::optional<EntrySet::Nearest> TuningDatabase::find_nearest(const TuningKey& key) {
  const auto entries = [&] {
    const std::lock_guard guard(mutex_);
    return fresh_slot(key.device_model).entries;
  }();
  return entries->find_nearest(key);
}

std::vector<MergeOutcome> TuningDatabase::record_on(const std::string& device_model,
                                                    const std::vector<TuningEntry>& offered,
                                                    EntrySet::Conflict conflict) {
  const std::string name = file_name(device_model);
  const std::lock_guard writing(write_mutex_);
  Slot slot = [&] {
    const std::lock_guard guard(mutex_);
    return slots_[device_model];
  }();
  std::vector<MergeOutcome> outcomes;
  const auto add_all = [&](EntrySet& entries) {
    outcomes.clear();
    add_entries(entries, slot.unsaved);
    for (const TuningEntry& entry : offered) outcomes.push_back(entries.add(entry, conflict));
  };

  std::string refusal;
  DatabaseContent content;
  const auto change = [&](const DatabaseFolder::Content& now) -> std::optional<DatabaseFolder::Change> {
    // Reading is most of what a change costs, and many changes in a row are this process's own.
    if (slot.is_whole && now.version == slot.version)
      content = {*slot.entries, slot.damaged, "", false};
    else
      content = parse_content(name, now);
    if (content.is_left_alone) {
      refusal = fmt::format("{}: {}", (folder_.path() / name).string(), content.problem);
      return std::nullopt;
    }
    // What was read while the file was whole is not lost with it.
    if (!content.problem.empty()) add_entries(content.entries, *slot.entries);
    add_all(content.entries);
    return DatabaseFolder::Change{format_content(content), !content.problem.empty()};
  };
  DatabaseFolder::Updated updated = folder_.update(name, change);
  const std::string problem = updated.problem.empty() ? std::move(refusal) : std::move(updated.problem);
  if (problem.empty()) {
    content.problem.clear();
    std::erase_if(content.damaged, [](const DamagedEntry& damaged) { return damaged.text.empty(); });  // not written
    slot.version = updated.version;
    slot.read_problem = summary(folder_.path() / name, content);
    slot.write_problem.clear();
    slot.is_whole = true;
    slot.damaged = std::move(content.damaged);
    slot.entries = std::make_shared<const EntrySet>(std::move(content.entries));
    slot.unsaved = {};
  } else {
    load(slot, name);
    EntrySet in_memory = *slot.entries;
    add_all(in_memory);
    for (const TuningEntry& entry : offered)
      slot.unsaved.add(*in_memory.find(entry.key), EntrySet::Conflict::offered_wins);
    slot.entries = std::make_shared<const EntrySet>(std::move(in_memory));
    slot.write_problem = fmt::format("tuning database {}; what is tuned now is kept in memory only", problem);
  }
  const std::lock_guard guard(mutex_);
  slots_[device_model] = std::move(slot);
  return outcomes;
}

std::vector<MergeOutcome> TuningDatabase::record(std::vector<TuningEntry> offered, EntrySet::Conflict conflict) {
  struct Group {
    std::vector<TuningEntry> entries;
    std::vector<std::size_t> places;
  };
  std::map<std::string, Group> groups;
  for (std::size_t i = 0; i < offered.size(); ++i) {
    Group& group = groups[offered[i].key.device_model];
    group.entries.push_back(as_read_back(offered[i]));
    group.places.push_back(i);
  }
  std::vector<MergeOutcome> outcomes(offered.size());
  for (const auto& [device_model, group] : groups) {
    std::vector<MergeOutcome> of_device = record_on(device_model, group.entries, conflict);
    for (std::size_t i = 0; i < of_device.size(); ++i) outcomes[group.places[i]] = std::move(of_device[i]);
  }
  return outcomes;
}

std::string TuningDatabase::write_problem() const {
  const std::lock_guard guard(mutex_);
  for (const auto& [model, slot] : slots_)
    if (!slot.write_problem.empty()) return slot.write_problem;
  return "";
}

std::string TuningDatabase::problem() const {
  if (std::string problem = write_problem(); !problem.empty()) return problem;
  const std::lock_guard guard(mutex_);
  for (const auto& [model, slot] : slots_)
    if (!slot.read_problem.empty()) return slot.read_problem;
  return "";
}

std::vector<TuningDatabase::DeviceFile> TuningDatabase::list() const {
  std::map<std::string, EntrySet> unsaved;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [model, slot] : slots_)
      if (slot.unsaved.size() > 0) unsaved[file_name(model)] = slot.unsaved;
  }
  for (const std::string& name : folder_.names(kDatabaseSuffix)) unsaved.try_emplace(name);
  std::vector<DeviceFile> files;
  if (std::string problem = folder_.problem(); !problem.empty())
    files.push_back({folder_.path(), {}, {}, std::move(problem)});
  for (const auto& [name, entries] : unsaved) {
    const DatabaseFolder::Content file = folder_.read(name);
    DatabaseContent content = parse_content(name, file);
    add_entries(content.entries, entries);
    files.push_back(
        {folder_.path() / name, content.entries.sorted(), std::move(content.damaged), std::move(content.problem)});
  }
  return files;
}

TuningDatabase::Removed TuningDatabase::remove_if(const std::function<bool(const TuningEntry&)>& unwanted) {
  Removed removed;
  const std::lock_guard writing(write_mutex_);
  {
    const std::lock_guard guard(mutex_);
    for (auto& [model, slot] : slots_) slot.unsaved.remove_if(unwanted);
  }
  for (const std::string& name : folder_.names(kDatabaseSuffix)) {
    std::size_t entries = 0, damaged = 0;
    std::string refusal;
    const auto change = [&](const DatabaseFolder::Content& now) -> std::optional<DatabaseFolder::Change> {
      DatabaseContent content = parse_content(name, now);
      if (content.is_left_alone) {
        refusal = fmt::format("{}: {}", (folder_.path() / name).string(), content.problem);
        return std::nullopt;
      }
      entries = content.entries.remove_if(unwanted);
      damaged = content.damaged.size();
      if (entries + damaged == 0 && content.problem.empty()) return std::nullopt;
      content.damaged.clear();
      return DatabaseFolder::Change{format_content(content), !content.problem.empty()};
    };
    std::string problem = folder_.update(name, change).problem;
    if (problem.empty()) problem = std::move(refusal);
    if (!problem.empty()) {
      removed.problems.push_back(std::move(problem));
      continue;
    }
    removed.entries += entries;
    removed.damaged += damaged;
  }
  const std::lock_guard guard(mutex_);
  for (auto& [model, slot] : slots_) {
    slot.entries = std::make_shared<const EntrySet>();
    slot.version.size_bytes = -2;  // no file's: it is read again
    slot.next_check = {};
  }
  return removed;
}

}  // namespace kiln
