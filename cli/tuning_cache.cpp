#include "cli/tuning_cache.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdint>
#include <iterator>
#include <utility>

#include "cli/input_file_error.hpp"
#include "cli/standard_streams.hpp"
#include "cli/tuning_listing.hpp"
#include "core/errors.hpp"
#include "core/input_file.hpp"
#include "core/output_file.hpp"
#include "core/quantity.hpp"
#include "core/text_table.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string read_input(const std::string& path) {
  try {
    return read_input_file(path, kMaxTuningDocumentBytes);
  } catch (const SystemError& error) {
    throw InputFileError(error.what());
  }
}

/// The entries of all input files; what is damaged in them is named on stderr.
struct Inputs {
  std::vector<TuningEntry> entries;
  std::size_t damaged = 0;
};

Inputs read_inputs(const std::vector<std::string>& paths) {
  Inputs inputs;
  for (const std::string& path : paths) {
    TuningDocument document = parse_document(read_input(path));
    if (!document.problem.empty() && document.entries.empty())
      throw InputFileError(fmt::format("'{}' holds no tuning entries: {}", path, document.problem));
    if (!document.problem.empty() && document.damaged.empty())
      document.damaged.push_back({"the file", document.problem, ""});
    for (const DamagedEntry& damaged : document.damaged)
      print_error(fmt::format("'{}': {} is not used: {}", path, damaged.where, damaged.reason));
    inputs.damaged += document.damaged.size();
    std::move(document.entries.begin(), document.entries.end(), std::back_inserter(inputs.entries));
  }
  return inputs;
}

void write_output(const std::string& path, const std::vector<std::shared_ptr<const TuningEntry>>& entries) {
  TuningDocument document;
  for (const auto& entry : entries) document.entries.push_back(*entry);
  const std::string text = format_document(document);
  if (path == "-") return print_document(text);
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

void print_outcomes(const std::vector<MergeOutcome>& outcomes, bool json) {
  if (!json) return print_text(outcomes_text(outcomes));
  Json list = Json::array();
  for (const MergeOutcome& outcome : outcomes) list.push_back(outcome_json(outcome));
  print_json(list);
}

}  // namespace

int list_tuning(const TuningDatabase& database, bool json) {
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows{entry_header()};
  std::string problems;
  for (const TuningDatabase::DeviceFile& file : database.list()) {
    for (const auto& entry : file.entries) {
      list.push_back(entry_json(*entry, /*evidence=*/false));
      rows.push_back(entry_row(*entry));
    }
    if (!file.problem.empty() || !file.damaged.empty())
      problems += fmt::format("{}: something in it cannot be read; see 'kiln cache verify'\n", file.path.string());
  }
  const std::size_t count = rows.size() - 1;
  if (json)
    print_json(list);
  else
    print_text(fmt::format("{}{}{}, in {}\n{}", count == 0 ? "" : format_table(rows), count == 0 ? "" : "\n",
                           tuning_entries_text(count), database.folder().string(), problems));
  return 0;
}

std::vector<std::shared_ptr<const TuningEntry>> find_tuning(const TuningDatabase& database,
                                                            std::string_view key_prefix) {
  std::vector<std::shared_ptr<const TuningEntry>> found;
  for (const TuningDatabase::DeviceFile& file : database.list())
    for (const auto& entry : file.entries)
      if (hash_of(entry->key).hex().starts_with(key_prefix)) found.push_back(entry);
  return found;
}

TuningVerification verify_tuning(const TuningDatabase& database, const EntryCheck& check) {
  TuningVerification result;
  std::size_t count = 0, usable = 0;
  Json unusable = Json::array(), damaged = Json::array();
  for (const TuningDatabase::DeviceFile& file : database.list()) {
    const std::string path = file.path.string();
    for (const auto& entry : file.entries) {
      ++count;
      const EntryVerdict verdict = check(*entry);
      if (verdict.kind == EntryVerdict::Kind::usable) {
        ++usable;
        continue;
      }
      const char* const kind = verdict.kind == EntryVerdict::Kind::stale ? "stale" : "elsewhere";
      Json json = entry_json(*entry, /*evidence=*/false);
      json["state"] = kind;
      json["reason"] = verdict.reason;
      unusable.push_back(json);
      result.text += fmt::format("not used here ({}): {} {}: {}\n", kind, hash_of(entry->key).hex().substr(0, 12),
                                 to_string(entry->key), verdict.reason);
    }
    if (!file.problem.empty()) {
      damaged.push_back({{"file", path}, {"where", "the file"}, {"reason", file.problem}});
      result.text += fmt::format("damaged: {}: {}\n", path, file.problem);
    }
    for (const DamagedEntry& element : file.damaged) {
      damaged.push_back({{"file", path}, {"where", element.where}, {"reason", element.reason}});
      result.text += fmt::format("damaged: {}: {}: {}\n", path, element.where, element.reason);
    }
  }
  result.damaged = damaged.size();
  result.text +=
      fmt::format("{} checked, {} usable here, {} damaged\n", tuning_entries_text(count), usable, result.damaged);
  result.json = {{"entries", count}, {"usable", usable}, {"unusable", unusable}, {"damaged", damaged}};
  return result;
}

std::string tuning_entries_text(std::size_t count) {
  return format_count(static_cast<std::int64_t>(count), "tuning entry");
}

std::size_t remove_tuning(TuningDatabase& database, const std::function<bool(const TuningEntry&)>& unwanted) {
  const TuningDatabase::Removed removed = database.remove_if(unwanted);
  if (!removed.problems.empty())
    throw SystemError(fmt::format("the tuning database cannot be changed: {}", removed.problems[0]));
  return removed.entries + removed.damaged;
}

int export_tuning(const TuningDatabase& database, const TuningExchangeOptions& options) {
  std::vector<std::shared_ptr<const TuningEntry>> entries;
  for (const TuningDatabase::DeviceFile& file : database.list())
    for (const auto& entry : file.entries)
      if (options.op.empty() || entry->key.op == options.op) entries.push_back(entry);
  if (entries.empty() && !options.op.empty())
    throw_value_error(
        fmt::format("there is no tuning entry of op '{}'; 'kiln cache list --tuning' shows them all", options.op));
  write_output(options.output, entries);
  if (options.output == "-") return 0;
  if (options.json)
    print_json({{"entries", entries.size()}, {"file", options.output}});
  else
    print_text(fmt::format("wrote {} to {}\n", tuning_entries_text(entries.size()), options.output));
  return 0;
}

int import_tuning(TuningDatabase& database, const TuningExchangeOptions& options) {
  Inputs inputs = read_inputs(options.inputs);
  const std::vector<MergeOutcome> outcomes = database.record(std::move(inputs.entries));
  // A process ends here, and what it only remembers with it.
  if (const std::string problem = database.write_problem(); !problem.empty())
    throw SystemError(fmt::format("not everything was imported: {}", problem));
  print_outcomes(outcomes, options.json);
  return inputs.damaged == 0 ? 0 : 1;
}

int merge_tuning(const TuningExchangeOptions& options) {
  struct stat status{};
  if (options.output != "-" && ::stat(options.output.c_str(), &status) == 0)
    throw_value_error(fmt::format("'{}' exists already; the merged entries go into a new file", options.output));
  Inputs inputs = read_inputs(options.inputs);
  EntrySet merged;
  std::vector<MergeOutcome> outcomes;
  for (TuningEntry& entry : inputs.entries) outcomes.push_back(merged.add(std::move(entry)));
  write_output(options.output, merged.sorted());
  if (options.output != "-") print_outcomes(outcomes, options.json);
  return inputs.damaged == 0 ? 0 : 1;
}

}  // namespace kiln::cli
