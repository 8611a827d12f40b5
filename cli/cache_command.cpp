#include "cli/cache_command.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/artifact_listing.hpp"
#include "cli/standard_streams.hpp"
#include "cli/tuning_check.hpp"
#include "cli/tuning_listing.hpp"
#include "compiler/artifact_cache.hpp"
#include "core/environment.hpp"
#include "core/errors.hpp"
#include "core/quantity.hpp"
#include "core/text_table.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view kind_name(ArtifactKind kind) {
  switch (kind) {
    case ArtifactKind::cubin:
      return "cubin";
    case ArtifactKind::ptx:
      return "ptx";
    case ArtifactKind::object:
      return "object";
  }
  return "?";
}

std::string plural(std::int64_t count) {
  return format_count(count, "artifact");
}

void print(const CacheOptions& options, const Json& json, const std::string& text) {
  if (options.json)
    print_json(json);
  else
    print_text(text);
}

/// What of the folder is not Kiln's, and so stays whatever is removed: into the JSON, and a line each.
std::string report_strangers(const DiskStore& store, Json& json) {
  std::string text;
  json["left"] = Json::array();
  for (const std::string& path : store.strangers()) {
    json["left"].push_back(path);
    text += fmt::format("left alone, since it is not Kiln's: {}\n", (store.root() / path).string());
  }
  return text;
}

Json artifact_json(const ListedArtifact& listed) {
  Json json = {{"key", listed.entry.key.hex()},
               {"size_bytes", listed.entry.size_bytes},
               {"last_used_unix_s", listed.entry.last_used_unix_s},
               {"intact", listed.entry.intact}};
  if (listed.artifact) {
    json["name"] = listed.artifact->name;
    json["kind"] = kind_name(listed.artifact->kind);
    json["target"] = to_string(listed.artifact->target);
  }
  return json;
}

int list(const DiskStore& store, const CacheOptions& options) {
  Json json = Json::array();
  std::vector<std::vector<std::string>> rows;
  std::int64_t total_bytes = 0;
  for (const ListedArtifact& listed : list_artifacts(store)) {
    json.push_back(artifact_json(listed));
    total_bytes += listed.entry.size_bytes;
    rows.push_back({listed.entry.key.hex(), format_bytes(listed.entry.size_bytes),
                    format_age_since(listed.entry.last_used_unix_s),
                    listed.artifact ? to_string(listed.artifact->target) : "",
                    listed.artifact       ? listed.artifact->name
                    : listed.entry.intact ? "(not an artifact of this version)"
                                          : "(damaged: it will be rebuilt when asked for)"});
  }
  std::string text;
  if (rows.empty()) {
    text = fmt::format("the cache in {} is empty\n", store.root().string());
  } else {
    const auto count = static_cast<std::int64_t>(rows.size());
    rows.insert(rows.begin(), {"KEY", "SIZE", "USED", "TARGET", "KERNEL"});
    text = format_table(rows) +
           fmt::format("\n{}, {}, in {}\n", plural(count), format_bytes(total_bytes), store.root().string());
  }
  print(options, json, text);
  return 0;
}

/// Whether `options.key` means a tuned choice, which is then shown.
bool show_tuning(const DiskStore& store, const CacheOptions& options) {
  const auto tuned = find_tuning(TuningDatabase::process(), options.key);
  if (options.key.empty() || tuned.empty()) return false;
  std::vector<std::string> keys;
  for (const auto& entry : tuned) keys.push_back(hash_of(entry->key).hex());
  for (const DiskStore::Entry& entry : store.list(/*verify=*/false))
    if (entry.key.hex().starts_with(options.key)) keys.push_back(entry.key.hex());
  if (keys.size() > 1)
    throw_value_error(fmt::format("key '{}' is ambiguous: {} and {} both start with it; give more digits", options.key,
                                  keys[0], keys[1]));
  print(options, entry_json(*tuned[0], /*evidence=*/true), entry_text(*tuned[0]));
  return true;
}

int show(const DiskStore& store, const CacheOptions& options) {
  if (show_tuning(store, options)) return 0;
  const ListedArtifact listed = find_artifact(store, options.key);
  Json json = artifact_json(listed);
  std::vector<std::vector<std::string>> rows{{"key", listed.entry.key.hex()},
                                             {"size", format_bytes(listed.entry.size_bytes)},
                                             {"last used", format_age_since(listed.entry.last_used_unix_s) + " ago"}};
  if (const auto& artifact = listed.artifact) {
    json["features"] = artifact->target.features;
    json["entry"] = artifact->entry;
    json["code_bytes"] = artifact->code.size();
    json["compile_time_us"] = artifact->compile_time_us;
    rows.push_back({"kernel", artifact->name});
    rows.push_back({"kind", std::string(kind_name(artifact->kind))});
    rows.push_back({"target", to_string(artifact->target)});
    if (!artifact->target.features.empty()) rows.push_back({"features", artifact->target.features});
    rows.push_back({"entry", artifact->entry});
    rows.push_back({"code", format_bytes(static_cast<std::int64_t>(artifact->code.size()))});
    rows.push_back({"compiled in", format_duration_us(static_cast<double>(artifact->compile_time_us))});
  } else {
    rows.push_back({"content", listed.entry.intact ? "not an artifact of this version"
                                                   : "damaged; it will be rebuilt when asked for"});
  }
  print(options, json, format_table(rows));
  return 0;
}

int stats(const DiskStore& store, const CacheOptions& options) {
  std::int64_t count = 0, bytes = 0, damaged = 0;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> by_target;
  for (const ListedArtifact& listed : list_artifacts(store)) {
    ++count;
    bytes += listed.entry.size_bytes;
    damaged += !listed.entry.intact;
    if (!listed.artifact) continue;
    auto& [target_count, target_bytes] = by_target[to_string(listed.artifact->target)];
    ++target_count;
    target_bytes += listed.entry.size_bytes;
  }
  const std::string limit = environment("KILN_CACHE_SIZE").value_or("the default");
  Json json = {{"root", store.root().string()}, {"artifacts", count},       {"bytes", bytes}, {"damaged", damaged},
               {"problem", store.problem()},    {"targets", Json::object()}};
  std::vector<std::vector<std::string>> rows{
      {"folder", store.root().string()},
      {"artifacts", std::to_string(count)},
      {"size", fmt::format("{} (limit, KILN_CACHE_SIZE: {})", format_bytes(bytes), limit)},
      {"damaged", std::to_string(damaged)}};
  for (const auto& [target, sums] : by_target) {
    json["targets"][target] = {{"artifacts", sums.first}, {"bytes", sums.second}};
    rows.push_back({target, fmt::format("{}, {}", plural(sums.first), format_bytes(sums.second))});
  }
  std::size_t tuned = 0;
  for (const TuningDatabase::DeviceFile& file : TuningDatabase::process().list()) tuned += file.entries.size();
  json["tuning_entries"] = tuned;
  rows.push_back({"tuning", fmt::format("{} tuned {}", tuned, tuned == 1 ? "call" : "calls")});
  if (!store.problem().empty()) rows.push_back({"problem", store.problem()});
  const std::string strangers = report_strangers(store, json);
  print(options, json, format_table(rows) + strangers);
  return 0;
}

int verify(DiskStore& store, const CacheOptions& options) {
  std::vector<std::string> damaged;
  std::int64_t count = 0;
  for (const DiskStore::Entry& entry : store.list(/*verify=*/true)) {
    ++count;
    if (!entry.intact) damaged.push_back(entry.key.hex());
  }
  const DiskStore::Pruned removed = options.repair ? store.remove_damaged() : DiskStore::Pruned{};
  const TuningVerification tuning = verify_tuning(TuningDatabase::process(), check_tuning_entry);
  std::size_t unrepaired = tuning.damaged + damaged.size();
  if (options.repair) {
    remove_tuning(TuningDatabase::process(), [](const TuningEntry&) { return false; });
    unrepaired = damaged.size() - std::min<std::size_t>(damaged.size(), static_cast<std::size_t>(removed.entries));
  }
  Json json = {{"artifacts", count}, {"damaged", damaged}, {"removed", removed.entries}, {"tuning", tuning.json}};
  std::string text;
  for (const std::string& key : damaged) text += "damaged: " + key + '\n';
  text += fmt::format("{} checked, {} damaged{}\n", plural(count), damaged.size(),
                      options.repair ? fmt::format(", {} removed", removed.entries) : "");
  text += report_strangers(store, json);
  print(options, json, text + tuning.text);
  if (unrepaired == 0) return 0;
  const std::size_t all = tuning.damaged + damaged.size();
  print_error(
      fmt::format("{} of the cache {} damaged; 'kiln cache verify --repair' removes what is, and the next use "
                  "makes it anew",
                  format_count(static_cast<std::int64_t>(all), "entry"), all == 1 ? "is" : "are"));
  return 1;
}

int prune(DiskStore& store, const CacheOptions& options) {
  Json json = Json::object();
  std::string text;
  if (!options.keep.empty()) {
    const DiskStore::Pruned removed = store.prune(parse_bytes(options.keep, "--to"));
    json = {{"removed", removed.entries}, {"bytes", removed.bytes}};
    text = fmt::format("removed {}, {}, from {}\n", plural(removed.entries), format_bytes(removed.bytes),
                       store.root().string());
    text += report_strangers(store, json);
  }
  if (options.stale_tuning) {
    // Those of other hardware, and of ops that only another program registers, stay.
    const std::size_t removed = remove_tuning(TuningDatabase::process(), [](const TuningEntry& entry) {
      return check_tuning_entry(entry).kind == EntryVerdict::Kind::stale;
    });
    json["tuning_removed"] = removed;
    text +=
        fmt::format("removed {} from {}\n", tuning_entries_text(removed), TuningDatabase::process().folder().string());
  }
  print(options, json, text);
  return 0;
}

int clear(DiskStore& store, const CacheOptions& options) {
  if (!options.yes) {
    std::int64_t count = 0, bytes = 0;
    for (const DiskStore::Entry& entry : store.list(/*verify=*/false)) {
      ++count;
      bytes += entry.size_bytes;
    }
    throw_value_error(fmt::format("this would remove {}, {}, from {}; say 'kiln cache clear --yes' to do it",
                                  plural(count), format_bytes(bytes), store.root().string()));
  }
  const DiskStore::Pruned removed = store.clear();
  Json json = {{"removed", removed.entries}, {"bytes", removed.bytes}};
  const std::string strangers = report_strangers(store, json);
  print(options, json,
        fmt::format("removed {}, {}, from {}\n", plural(removed.entries), format_bytes(removed.bytes),
                    store.root().string()) +
            strangers);
  return 0;
}

int clear_tuning(TuningDatabase& database, const CacheOptions& options) {
  if (!options.yes) {
    std::size_t count = 0;
    for (const TuningDatabase::DeviceFile& file : database.list()) count += file.entries.size();
    throw_value_error(fmt::format("this would remove {} from {}; say 'kiln cache clear --tuning --yes' to do it",
                                  tuning_entries_text(count), database.folder().string()));
  }
  const std::size_t removed = remove_tuning(database, [](const TuningEntry&) { return true; });
  print(options, {{"tuning_removed", removed}},
        fmt::format("removed {} from {}\n", tuning_entries_text(removed), database.folder().string()));
  return 0;
}

/// Actions on artifacts, or on both.
int artifact_command(const CacheOptions& options) {
  DiskStore& store = ArtifactCache::process().disk();
  const DiskStore::State state = store.state();
  if (state == DiskStore::State::refused || state == DiskStore::State::unavailable)
    throw SystemError(fmt::format("the cache cannot be used: {}", store.problem()));
  const bool writes = options.action == CacheAction::prune || options.action == CacheAction::clear || options.repair;
  if (state == DiskStore::State::read_only && writes)
    throw SystemError(fmt::format("the cache cannot be changed: {}", store.problem()));
  switch (options.action) {
    case CacheAction::list:
      return list(store, options);
    case CacheAction::show:
      return show(store, options);
    case CacheAction::stats:
      return stats(store, options);
    case CacheAction::verify:
      return verify(store, options);
    case CacheAction::prune:
      return prune(store, options);
    case CacheAction::clear:
      return clear(store, options);
    default:
      throw InternalError("cache: an action without a case");
  }
}

}  // namespace

int cache_command(const CacheOptions& options) {
  TuningDatabase& database = TuningDatabase::process();
  TuningExchangeOptions exchange = options.exchange;
  exchange.json = options.json;
  switch (options.action) {
    case CacheAction::export_tuning:
      return export_tuning(database, exchange);
    case CacheAction::import_tuning:
      return import_tuning(database, exchange);
    case CacheAction::merge_tuning:
      return merge_tuning(exchange);
    case CacheAction::list:
      return options.tuning ? list_tuning(database, options.json) : artifact_command(options);
    case CacheAction::clear:
      return options.tuning ? clear_tuning(database, options) : artifact_command(options);
    case CacheAction::prune:
      if (options.keep.empty() && !options.stale_tuning)
        throw_value_error("prune: say what may go: --to SIZE for artifacts, --stale-tuning for tuning entries");
      // A malformed size is refused before the disk is touched.
      if (!options.keep.empty()) parse_bytes(options.keep, "--to");
      return artifact_command(options);
    default:
      return artifact_command(options);
  }
}

}  // namespace kiln::cli
