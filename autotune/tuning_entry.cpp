#include "autotune/tuning_entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <utility>

#include "core/errors.hpp"

namespace kiln {
namespace {

namespace chrono = std::chrono;

}  // namespace

std::string dtypes_text(std::span<const DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text.append(text.empty() ? "" : ", ").append(name(dtype));
  return text;
}

std::string attributes_text(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes.entries())
    text.append(text.empty() ? "" : ", ").append(name).append("=").append(to_string(value));
  return text;
}

std::string space_hash(const ConfigSpace& space) {
  return ContentHasher().field(space.signature()).digest().hex();
}

ContentHash hash_of(const TuningKey& key) {
  ContentHasher hasher;
  hasher.field(key.device_model).field(key.processors).field(key.op).field(key.variant).field(key.dtypes);
  for (const ShapeKey::Item& item : key.shapes.items)
    hasher.field(static_cast<std::int64_t>(item.kind)).field(item.extent);
  return hasher.field(key.attributes).field(key.kernel_hash).field(key.space_hash).digest();
}

std::string to_string(const TuningKey& key) {
  return fmt::format("{} {} ({}) {}{}{}", key.op, key.variant, key.dtypes, to_string(key.shapes),
                     key.attributes.empty() ? "" : "; ", key.attributes);
}

std::string to_string(const MeasuringPolicy& policy) {
  return fmt::format("{}, {} L2", policy.launch == MeasuringPolicy::Launch::graph ? "graph" : "eager",
                     policy.l2 == MeasuringPolicy::L2::flushed ? "flushed" : "hot");
}

MeasuringPolicy parse_measuring_policy(std::string_view text, MeasuringPolicy fallback) {
  MeasuringPolicy policy = fallback;
  std::size_t end = 0;
  for (std::size_t begin = text.find_first_not_of(", "); begin < text.size();
       begin = text.find_first_not_of(", ", end)) {
    end = std::min(text.find_first_of(", ", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (word == "eager" || word == "graph") {
      policy.launch = word == "graph" ? MeasuringPolicy::Launch::graph : MeasuringPolicy::Launch::eager;
    } else if (word == "hot" || word == "flushed") {
      policy.l2 = word == "hot" ? MeasuringPolicy::L2::hot : MeasuringPolicy::L2::flushed;
    } else if (word != "L2") {
      throw_value_error(fmt::format(
          "'{}' is no way to measure; expected eager or graph, hot or flushed, as in \"graph, flushed L2\"", text));
    }
  }
  return policy;
}

const CandidateEvidence* TuningEntry::evidence_of(const Config& tried_config) const noexcept {
  const auto found = std::ranges::find(tried, tried_config, &CandidateEvidence::config);
  return found == tried.end() || found->samples == 0 ? nullptr : &*found;
}

TuningEntry make_entry(TuningKey key, const TuningResult& result) {
  TuningEntry entry;
  entry.key = std::move(key);
  entry.config = result.candidates.at(result.chosen).config;
  entry.default_config = result.candidates.at(result.default_index).config;
  entry.relative = result.chosen_relative;
  entry.complete = result.complete;
  for (const CandidateEvidence& candidate : result.candidates)
    if (candidate.outcome != Outcome::untried && candidate.outcome != Outcome::ruled_out)
      entry.tried.push_back(candidate);
  std::ranges::stable_sort(entry.tried, {}, [](const CandidateEvidence& candidate) {
    return candidate.samples == 0 ? std::numeric_limits<double>::infinity() : candidate.median_us;
  });
  return entry;
}

std::string format_date(std::int64_t unix_s) {
  const chrono::sys_seconds time{chrono::seconds(unix_s)};
  const auto day = chrono::floor<chrono::days>(time);
  const chrono::year_month_day date(day);
  const chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count());
}

std::optional<std::int64_t> parse_date(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  if (text.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (kForm[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != kForm[i]) return std::nullopt;
  const auto number = [&](std::size_t begin, std::size_t count) {
    int value = 0;
    std::from_chars(text.data() + begin, text.data() + begin + count, value);
    return value;
  };
  const chrono::year_month_day date(chrono::year(number(0, 4)), chrono::month(static_cast<unsigned>(number(5, 2))),
                                    chrono::day(static_cast<unsigned>(number(8, 2))));
  if (!date.ok() || number(11, 2) > 23 || number(14, 2) > 59 || number(17, 2) > 59) return std::nullopt;
  const chrono::sys_seconds time = chrono::sys_days(date) + chrono::hours(number(11, 2)) +
                                   chrono::minutes(number(14, 2)) + chrono::seconds(number(17, 2));
  return time.time_since_epoch().count();
}

}  // namespace kiln
