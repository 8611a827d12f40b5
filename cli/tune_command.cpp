#include "cli/tune_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "autotune/database.hpp"
#include "cli/earlier_tuning.hpp"
#include "cli/end_request.hpp"
#include "cli/measuring.hpp"
#include "cli/plot.hpp"
#include "cli/progress_line.hpp"
#include "cli/random_call.hpp"
#include "cli/standard_streams.hpp"
#include "core/errors.hpp"
#include "core/quantity.hpp"
#include "core/text_table.hpp"
#include "registry/plan/registry.hpp"
#include "registry/tuning/tuning_report.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

void show_progress(ProgressLine& line, const std::string& call, const TuningProgress& progress) {
  const double left_s = std::max(0.0, progress.budget_s - progress.elapsed_s);
  const std::string best = progress.best_us > 0
                               ? fmt::format(", best {} ({:.2f}x)", format_duration_us(progress.best_us),
                                             progress.default_us / progress.best_us)
                               : std::string();
  line.show(
      progress.candidates == 0 ? 0 : static_cast<double>(progress.tried) / static_cast<double>(progress.candidates),
      fmt::format("{}/{}{}, {:.0f} s left at most: {}", progress.tried, progress.candidates, best, left_s, call));
}

/// A kernel that never returns can only be left behind with the process, which starts over: what was found is in the
/// database, the hanging config marked as such. Where it is the default the next process would hang as well, and ends.
[[noreturn]] void start_over(const TuningEntry& entry) {
  if (isatty(STDERR_FILENO) != 0) std::fputc('\n', stderr);  // the progress line stays above
  bool is_default = false;
  for (const CandidateEvidence& evidence : entry.tried) {
    if (evidence.outcome != Outcome::hung) continue;
    if (evidence.config == entry.default_config) {
      is_default = true;
      print_error(fmt::format("the default config {} did not return, so that there is nothing to compare others with",
                              to_string(evidence.config)));
    } else {
      print_note(fmt::format("config {} did not return; it is recorded, and the tuning starts over without it",
                             to_string(evidence.config)));
    }
  }
  std::fflush(nullptr);
  if (is_default) _exit(1);
  std::vector<std::string> words;
  if (std::FILE* file = std::fopen("/proc/self/cmdline", "rb")) {
    std::string word;
    for (int letter = std::fgetc(file); letter != EOF; letter = std::fgetc(file)) {
      if (letter != 0) {
        word.push_back(static_cast<char>(letter));
        continue;
      }
      words.push_back(word);
      word.clear();
    }
    std::fclose(file);
  }
  std::erase(words, "--retune");  // it would forget what was just found
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  _exit(1);
}

/// One call's row in the summary of several.
struct Summary {
  std::string call;
  std::string default_time, chosen_time, gain, config;
};

Summary summarize_call(const std::string& call, const TuningEntry& entry) {
  const auto time = [&](const Config& config) {
    const CandidateEvidence* const evidence = entry.evidence_of(config);
    return evidence == nullptr ? std::string("-") : format_duration_us(evidence->median_us);
  };
  return {call, time(entry.default_config), time(entry.config), gain_text(entry), config_text(entry.config)};
}

class TuneSession {
 public:
  TuneSession(const TuneCommandOptions& options, Device device)
      : options_(options), device_(device), budget_s_(parse_budget_s(options.budget)) {
    tuning_.strategy = parse_strategy(options.strategy);
    tuning_.seed = options.seed;
    tuning_.budget_s = budget_s_;
    tuning_.measuring = measuring_policy(options.measure, options.l2, device);
    tuning_.resume = !options.retune;
    tuning_.hung = start_over;
    tuning_.stop = stop_.get_token();
  }

  int run() {
    const std::vector<TracedCall> calls = calls_to_tune(options_.calls, device_);
    const EndRequest end_request;
    std::size_t reached = 0;
    for (; reached < calls.size() && !EndRequest::is_made(); ++reached)
      tune_call(calls[reached], reached, calls.size());
    if (!options_.plot.empty() && !reports_.empty()) plot_png("tuning", reports_, options_.plot);
    const std::string write_problem = TuningDatabase::process().write_problem();
    if (options_.json) {
      print_json(reports_);
    } else {
      if (calls.size() > 1) print_summary();
      if (!reports_.empty() && write_problem.empty())
        print_text(fmt::format("recorded in {}\n", TuningDatabase::process().folder().string()));
    }
    if (!write_problem.empty())
      print_error(fmt::format("what was found is not recorded: {}", write_problem));
    else if (const std::string problem = TuningDatabase::process().problem(); !problem.empty())
      print_warning(problem);
    if (EndRequest::is_made()) {
      print_interrupted(static_cast<std::int64_t>(calls.size() - reached), /*is_kept=*/write_problem.empty());
      return EndRequest::exit_status();
    }
    return failures_ == 0 && write_problem.empty() ? 0 : 1;
  }

 private:
  void tune_call(const TracedCall& call, std::size_t index, std::size_t count) {
    const std::string text = describe_call(call);
    if (!options_.json)
      print_text(fmt::format("{}{}\n", count > 1 ? fmt::format("[{}/{}] ", index + 1, count) : "", text));
    std::fflush(stdout);
    try {
      const OpSpec& spec = Registry::process().get(call.op);
      const std::vector<Tensor> inputs = random_inputs(spec, call.inputs, call.attributes, device_, options_.seed);
      const std::vector<TensorView> views(inputs.begin(), inputs.end());
      const Call validated = validated_call(spec, views, call.attributes, {.stream = Stream::default_of(device_)});
      std::optional<TuneReport> report;
      if (count > 1 && tuning_.resume) report = earlier_tuning(validated, *tuning_.measuring);
      if (!report) {
        ProgressLine line;
        tuning_.progress = [&](const TuningProgress& progress) {
          if (EndRequest::is_made()) stop_.request_stop();
          show_progress(line, text, progress);
        };
        report = tune_op(validated, tuning_);
      }
      if (!options_.json) print_text(tuning_text(*report));
      reports_.push_back(Json::parse(tuning_json(*report)));
      summaries_.push_back(summarize_call(text, report->entry));
    } catch (const Error& error) {
      ++failures_;
      print_error(fmt::format("{}: {}", text, error.what()));
    }
  }

  void print_summary() const {
    std::vector<std::vector<std::string>> rows{{"call", "default", "tuned", "gain", "config"}};
    for (const Summary& summary : summaries_)
      rows.push_back({summary.call, summary.default_time, summary.chosen_time, summary.gain, summary.config});
    print_text(fmt::format("\n{}", format_table(rows)));
  }

  static void print_interrupted(std::int64_t left, bool is_kept) {
    const std::string not_tuned = left > 0 ? fmt::format(", {} not tuned", format_count(left, "call")) : "";
    print_note(
        is_kept ? fmt::format("interrupted; what was found is kept{}; the same command goes on from there", not_tuned)
                : fmt::format("interrupted{}", not_tuned));
  }

  const TuneCommandOptions& options_;
  Device device_;
  double budget_s_;
  std::stop_source stop_;
  TuneOptions tuning_;
  Json reports_ = Json::array();
  std::vector<Summary> summaries_;
  int failures_ = 0;
};

}  // namespace

int tune_command(const TuneCommandOptions& options) {
  const Device device = chosen_device(options.device);
  if (!options.plot.empty()) check_plot(options.plot);
  return TuneSession(options, device).run();
}

}  // namespace kiln::cli
