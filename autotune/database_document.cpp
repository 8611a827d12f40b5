#include "autotune/database_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "autotune/significant_digits.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "kiln-tuning";
constexpr std::string_view kBegins = "{\n  \"format\": \"kiln-tuning\",\n";
/// An entry's own nesting is 4; what goes deeper is no database, and would overflow the stack when it is written.
constexpr int kMaxDepth = 32;
/// Beyond so many damaged elements a text is none of ours, and remembering each would fill memory.
constexpr std::size_t kMaxDamaged = 10'000;
/// How format_document opens and closes an entry; nothing else in its layout looks so.
constexpr std::string_view kEntryOpens = "    {";
constexpr std::string_view kEntryCloses = "    }";

/// Why some JSON is no entry. Never leaves this file.
struct Damage {
  std::string reason;
};

/// Text of unknown origin for a message: printable, and no longer than a line.
std::string quotable(std::string_view text) {
  constexpr std::size_t kLongest = 160;
  std::string quoted(text.substr(0, kLongest));
  for (char& c : quoted)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > kLongest ? quoted + "..." : quoted;
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// JSON as its standard has it, and beyond that without a key given twice, of which readers differ in which they take,
/// and without depths that only an attacker writes. Throws Damage.
Json parse_strictly(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, const Json& value) {
    if (depth > kMaxDepth) throw Damage{fmt::format("it is nested deeper than {} levels", kMaxDepth)};
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw Damage{fmt::format("it has the key '{}' twice in one object", quotable(value.get<std::string>()))};
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& error) {
    std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error at line 3, ..."
    const std::size_t tag_end = what.find("] ");
    if (tag_end != std::string_view::npos) what.remove_prefix(tag_end + 2);
    throw Damage{fmt::format("it is no JSON: {}", quotable(what))};
  }
}

/// Reads the fields of one object; what is missing or of another type is a Damage that names it.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {
    if (!json.is_object()) throw Damage{fmt::format("it is {}; expected an object", quotable(one_line(json)))};
  }

  bool has(const char* name) const { return json_.contains(name); }

  const Json& at(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) throw Damage{fmt::format("it lacks '{}'", name)};
    return *found;
  }

  std::string text(const char* name) const {
    if (!at(name).is_string()) refuse(name, "a string");
    return at(name).get<std::string>();
  }

  bool boolean(const char* name) const {
    if (!at(name).is_boolean()) refuse(name, "true or false");
    return at(name).get<bool>();
  }

  std::string nonempty_text(const char* name) const {
    std::string value = text(name);
    if (value.empty()) refuse(name, "a string that is not empty");
    return value;
  }

  std::int64_t count(const char* name, std::int64_t least) const {
    const Json& value = at(name);
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    // Unsigned first: a number beyond int64 would otherwise come back negative.
    const bool is_huge = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{kMost};
    if (!value.is_number_integer() || is_huge || value.get<std::int64_t>() < least)
      refuse(name, fmt::format("a whole number of {} or more", least));
    return value.get<std::int64_t>();
  }

  double number_above_zero(const char* name) const { return number_above_zero(name, at(name)); }

  /// [low, high]; everything when it is left out.
  Interval interval(const char* name) const {
    if (!has(name)) return {};
    const Json& value = at(name);
    if (!value.is_array() || value.size() != 2) refuse(name, "two numbers, [low, high]");
    const Interval interval{number_above_zero(name, value[0]), number_above_zero(name, value[1])};
    if (interval.low > interval.high) refuse(name, "the lower number first");
    return interval;
  }

  std::int64_t date(const char* name) const {
    const auto date = parse_date(text(name));
    if (!date) refuse(name, "a date like 2026-11-20T19:00:00Z");
    return *date;
  }

  /// What `parse` makes of the text, which throws UsageError.
  template <typename Parse>
  auto parsed(const char* name, const Parse& parse) const {
    try {
      return parse(text(name));
    } catch (const UsageError& error) {
      throw Damage{fmt::format("'{}': {}", name, quotable(error.what()))};
    }
  }

  template <typename Value>
  Value one_of(const char* name, std::string_view first, Value first_value, std::string_view second,
               Value second_value) const {
    const std::string value = text(name);
    if (value != first && value != second) refuse(name, fmt::format("\"{}\" or \"{}\"", first, second));
    return value == first ? first_value : second_value;
  }

  const Json& array(const char* name) const {
    if (!at(name).is_array()) refuse(name, "an array");
    return at(name);
  }

 private:
  double number_above_zero(const char* name, const Json& value) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
      refuse(name, "numbers above 0");
    return value.get<double>();
  }

  [[noreturn]] void refuse(const char* name, std::string_view expected) const {
    throw Damage{fmt::format("'{}' is {}; expected {}", name, quotable(one_line(at(name))), expected)};
  }

  const Json& json_;
};

constexpr const char* kKnownFields[] = {"op",         "variant",     "dtypes",     "shapes", "attributes", "device",
                                        "processors", "kernel_hash", "space_hash", "config", "default",    "relative",
                                        "launch",     "l2",          "strategy",   "driver", "compiler",   "date",
                                        "history",    "tried",       "complete"};

// ---- writing

/// Six digits, more than any clock tells, so that a person can read the times.
double rounded(double value) {
  return with_significant_digits(value, 6);
}

void put_interval(Json& json, const char* name, const Interval& interval) {
  if (std::isfinite(interval.high) && interval.low > 0)
    json[name] = Json::array({rounded(interval.low), rounded(interval.high)});
}

void put_policy(Json& json, const MeasuringPolicy& policy) {
  json["launch"] = policy.launch == MeasuringPolicy::Launch::graph ? "graph" : "eager";
  json["l2"] = policy.l2 == MeasuringPolicy::L2::flushed ? "flushed" : "hot";
}

Json to_json(const CandidateEvidence& tried) {
  Json json = {{"config", to_string(tried.config)}, {"outcome", to_string(tried.outcome)}};
  if (tried.samples > 0) {
    json["median_us"] = rounded(tried.median_us);
    put_interval(json, "interval_us", tried.interval_us);
    put_interval(json, "relative", tried.relative);
    json["samples"] = tried.samples;
    json["warm_up_samples"] = tried.warm_up_samples;
  }
  if (tried.outliers.slow + tried.outliers.fast > 0)
    json["outliers"] = {{"samples", tried.outliers.samples},
                        {"slow", tried.outliers.slow},
                        {"fast", tried.outliers.fast},
                        {"slowest", rounded(tried.outliers.slowest)}};
  if (!tried.reason.empty()) json["reason"] = tried.reason;
  return json;
}

Json to_json(const PastMeasurement& past) {
  Json json = {{"date", format_date(past.date_unix_s)},
               {"config", to_string(past.config)},
               {"median_us", rounded(past.median_us)}};
  put_interval(json, "interval_us", past.interval_us);
  put_policy(json, past.policy);
  json["driver"] = past.driver;
  return json;
}

Json fields_json(const TuningEntry& entry) {
  Json json = {{"op", entry.key.op},
               {"variant", entry.key.variant},
               {"dtypes", entry.key.dtypes},
               {"shapes", to_string(entry.key.shapes)},
               {"attributes", entry.key.attributes},
               {"device", entry.key.device_model},
               {"processors", entry.key.processors},
               {"kernel_hash", entry.key.kernel_hash},
               {"space_hash", entry.key.space_hash},
               {"config", to_string(entry.config)},
               {"default", to_string(entry.default_config)}};
  put_interval(json, "relative", entry.relative);
  put_policy(json, entry.policy);
  json["strategy"] = entry.strategy;
  json["complete"] = entry.complete;
  json["driver"] = entry.driver;
  json["compiler"] = entry.compiler;
  json["date"] = format_date(entry.date_unix_s);
  if (!entry.other_fields.empty()) {
    const Json others = Json::parse(entry.other_fields);
    for (const auto& [name, value] : others.items()) json[name] = value;
  }
  return json;
}

template <typename Item>
std::string array_text(const char* name, const std::vector<Item>& items) {
  std::string text = fmt::format("      \"{}\": [", name);
  for (const Item& item : items)
    text += fmt::format("{}\n        {}", &item == items.data() ? "" : ",", one_line(to_json(item)));
  return text + (items.empty() ? "]" : "\n      ]");
}

// ---- reading

MeasuringPolicy read_policy(const Fields& fields) {
  using Launch = MeasuringPolicy::Launch;
  using L2 = MeasuringPolicy::L2;
  return {fields.one_of("launch", "eager", Launch::eager, "graph", Launch::graph),
          fields.one_of("l2", "hot", L2::hot, "flushed", L2::flushed)};
}

/// Fits an int: the evidence counts in those.
int read_samples(const Fields& fields, const char* name) {
  return static_cast<int>(std::min<std::int64_t>(fields.count(name, 0), std::numeric_limits<int>::max()));
}

CandidateEvidence read_tried(const Json& json) {
  const Fields fields(json);
  CandidateEvidence tried;
  tried.config = fields.parsed("config", parse_config);
  tried.outcome = fields.parsed("outcome", parse_outcome);
  if (fields.has("reason")) tried.reason = fields.text("reason");
  if (fields.has("samples")) {
    tried.samples = read_samples(fields, "samples");
    tried.warm_up_samples = read_samples(fields, "warm_up_samples");
    tried.median_us = fields.number_above_zero("median_us");
    tried.interval_us = fields.interval("interval_us");
    tried.relative = fields.interval("relative");
    tried.outliers.samples = static_cast<std::size_t>(tried.samples);
  }
  if (fields.has("outliers")) {
    const Fields outliers(fields.at("outliers"));
    tried.outliers = {static_cast<std::size_t>(outliers.count("samples", 0)),
                      static_cast<std::size_t>(outliers.count("slow", 0)),
                      static_cast<std::size_t>(outliers.count("fast", 0)), outliers.number_above_zero("slowest")};
  }
  return tried;
}

PastMeasurement read_past(const Json& json) {
  const Fields fields(json);
  return {fields.date("date"),
          fields.parsed("config", parse_config),
          fields.number_above_zero("median_us"),
          fields.interval("interval_us"),
          read_policy(fields),
          fields.text("driver")};
}

template <typename Read>
auto read_array(const Fields& fields, const char* name, const Read& read) {
  std::vector<decltype(read(Json()))> items;
  for (const Json& item : fields.array(name)) try {
      items.push_back(read(item));
    } catch (const Damage& damage) {
      throw Damage{fmt::format("'{}', item {}: {}", name, items.size() + 1, damage.reason)};
    }
  return items;
}

/// A choice must rest on a measurement, and rank follows from the medians.
void check_evidence(TuningEntry& entry) {
  std::ranges::stable_sort(entry.tried, {}, [](const CandidateEvidence& tried) {
    return tried.samples == 0 ? std::numeric_limits<double>::infinity() : tried.median_us;
  });
  for (std::size_t i = 0; i < entry.tried.size() && entry.tried[i].samples > 0; ++i)
    entry.tried[i].rank = static_cast<int>(i) + 1;
  const CandidateEvidence* winner = entry.evidence_of(entry.config);
  if (winner == nullptr || is_failure(winner->outcome))
    throw Damage{fmt::format("'config' is {}, which 'tried' has no time of", to_string(entry.config))};
}

TuningEntry read_entry(const Json& json) {
  const Fields fields(json);
  TuningEntry entry;
  entry.key = {fields.nonempty_text("device"),  fields.count("processors", 1), fields.nonempty_text("op"),
               fields.nonempty_text("variant"), fields.text("dtypes"),         fields.parsed("shapes", parse_shape_key),
               fields.text("attributes"),       fields.text("kernel_hash"),    fields.text("space_hash")};
  entry.config = fields.parsed("config", parse_config);
  entry.default_config = fields.parsed("default", parse_config);
  entry.relative = fields.interval("relative");
  entry.policy = read_policy(fields);
  entry.strategy = fields.text("strategy");
  entry.complete = fields.has("complete") && fields.boolean("complete");
  entry.driver = fields.text("driver");
  entry.compiler = fields.text("compiler");
  entry.date_unix_s = fields.date("date");
  entry.tried = read_array(fields, "tried", read_tried);
  entry.history = read_array(fields, "history", read_past);
  Json others = Json::object();
  for (const auto& [name, value] : json.items())
    if (std::ranges::find(kKnownFields, name) == std::end(kKnownFields)) others[name] = value;
  if (!others.empty()) entry.other_fields = one_line(others);
  check_evidence(entry);
  return entry;
}

void add_damaged(TuningDocument& document, DamagedEntry damaged) {
  if (document.damaged.size() < kMaxDamaged)
    document.damaged.push_back(std::move(damaged));
  else if (document.problem.empty())
    document.problem = fmt::format("it has more than {} damaged entries", kMaxDamaged);
}

void add_entry(TuningDocument& document, const Json& json, const std::string& where) {
  try {
    document.entries.push_back(read_entry(json));
  } catch (const Damage& damage) {
    add_damaged(document, {where, damage.reason, one_line(json)});
  }
}

/// "matmul 4096x4096, 4096x4096", as far as it can be told.
std::string subject(const Json& json) {
  std::string text;
  for (const char* name : {"op", "shapes"})
    if (json.is_object() && json.contains(name) && json[name].is_string())
      text += fmt::format("{}{}", text.empty() ? "" : " ", quotable(json[name].get<std::string>()));
  return text.empty() ? text : fmt::format(" ({})", text);
}

/// The entries of a text that as a whole is no JSON.
void salvage(std::string_view text, TuningDocument& document) {
  std::optional<std::size_t> begin;
  std::size_t line_number = 0, begin_line = 0, count = 0;
  const auto read = [&](std::size_t end) {
    const std::string where = fmt::format("entry {} (from line {})", ++count, begin_line);
    try {
      add_entry(document, parse_strictly(text.substr(*begin, end - *begin)), where);
    } catch (const Damage& damage) {
      add_damaged(document, {where, damage.reason, ""});
    }
    begin.reset();
  };
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t end = std::min(text.find('\n', position), text.size());
    std::string_view line = text.substr(position, end - position);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++line_number;
    if (line == kEntryOpens) {
      if (begin) read(position);
      begin = position;
      begin_line = line_number;
    } else if (begin && (line == kEntryCloses || line == std::string(kEntryCloses) + ',')) {
      read(position + kEntryCloses.size());
    }
    position = end + 1;
  }
  if (begin) read(text.size());
}

}  // namespace

std::string format_entry(const TuningEntry& entry) {
  std::string text = std::string(kEntryOpens) + '\n';
  const Json fields = fields_json(entry);
  for (const auto& [name, value] : fields.items())
    text += fmt::format("      {}: {},\n", one_line(name), one_line(value));
  return text + array_text("history", entry.history) + ",\n" + array_text("tried", entry.tried) + '\n' +
         std::string(kEntryCloses);
}

bool begins_as_document(std::string_view text) noexcept {
  return text.starts_with(kBegins);
}

std::string format_document(const TuningDocument& document) {
  std::string text = fmt::format("{}  \"schema_version\": {},\n  \"entries\": [", kBegins, kTuningSchemaVersion);
  const char* separator = "\n";
  for (const TuningEntry& entry : document.entries) {
    text += separator + format_entry(entry);
    separator = ",\n";
  }
  for (const DamagedEntry& damaged : document.damaged) {
    if (damaged.text.empty()) continue;
    text += fmt::format("{}    {}", separator, damaged.text);
    separator = ",\n";
  }
  return text + "\n  ]\n}\n";
}

TuningDocument parse_document(std::string_view text) {
  TuningDocument document;
  if (text.size() > kMaxTuningDocumentBytes) {
    document.problem = fmt::format("it has {} bytes, more than any tuning database", text.size());
    return document;
  }
  try {
    const Json json = parse_strictly(text);
    const Fields fields(json);
    if (fields.text("format") != kFormat) throw Damage{fmt::format("its 'format' is not \"{}\"", kFormat)};
    const std::int64_t version = fields.count("schema_version", 1);
    if (version > kTuningSchemaVersion) {
      document.is_from_later = true;
      throw Damage{fmt::format("its schema version is {}, and this Kiln knows versions up to {}", version,
                               kTuningSchemaVersion)};
    }
    std::size_t count = 0;
    for (const Json& entry : fields.array("entries"))
      add_entry(document, entry, fmt::format("entry {}{}", ++count, subject(entry)));
  } catch (const Damage& damage) {
    document.problem = damage.reason;
    if (!document.is_from_later) salvage(text, document);
  }
  return document;
}

}  // namespace kiln
