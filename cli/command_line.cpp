#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/bench_command.hpp"
#include "cli/cache_command.hpp"
#include "cli/doctor_command.hpp"
#include "cli/experiment_command.hpp"
#include "cli/input_file_error.hpp"
#include "cli/inspect_command.hpp"
#include "cli/ops_command.hpp"
#include "cli/run_command.hpp"
#include "cli/standard_streams.hpp"
#include "cli/tune_command.hpp"
#include "core/errors.hpp"
#include "core/nearest_name.hpp"

namespace kiln::cli {
namespace {

constexpr int kWorkFailed = 1;
constexpr int kWrongCommandLine = 2;

/// A command line that is wrong before any command looks at it.
class CommandLineError : public UsageError {
 public:
  explicit CommandLineError(const std::string& message) : UsageError(Kind::value, message) {}
};

/// Whether messages are to be JSON, of a command line that may make no sense otherwise.
bool asks_for_json(int argc, char** argv) {
  return std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
}

/// Empty when `text` is a 64-bit unsigned integer; CLI11 would take -1 for one too.
std::string whole_number_problem(const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end) return {};
  return fmt::format("'{}' is not a whole number from 0 to {}", text, std::numeric_limits<std::uint64_t>::max());
}

/// The grammar: every command with its options, help, and what it runs.
class CommandLine {
 public:
  CommandLine()
      : app_("Kiln: tile kernels, compiled at run time for NVIDIA GPUs and CPUs, dispatched by name.", "kiln") {
    app_.set_version_flag("--version", "kiln " KILN_VERSION, "Print the version");
    app_.require_subcommand(0, 1);
    app_.get_formatter()->column_width(34);
    app_.footer(
        "Start with:\n"
        "  kiln doctor                                    what works on this machine\n"
        "  kiln ops                                       the ops there are\n"
        "  kiln run add --shape 4096x4096 --check         run one on random input\n"
        "  kiln COMMAND --help                            options and examples of a command");
    add_doctor();
    add_ops();
    add_run();
    add_bench();
    add_tune();
    add_inspect();
    add_cache();
    add_experiment();
    finish(app_);
  }

  /// Parses and runs; help and version are printed here.
  int run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& request) {
      app_.exit(request);
      return 0;
    } catch (const CLI::ParseError& error) {
      throw CommandLineError(std::string(error.what()) + help_hint());
    }
    refuse_leftovers(app_);
    if (!action_) {
      print_text(app_.help());  // of the innermost command
      if (innermost_command() == &app_) return 0;
      throw CommandLineError(
          fmt::format("'kiln {}' needs a command, one of the above", innermost_command()->get_name()));
    }
    return action_();
  }

 private:
  const CLI::App* innermost_command() const {
    const CLI::App* app = &app_;
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    return app;
  }

  std::string help_hint() const {
    std::string path;
    for (const CLI::App* app = innermost_command(); app != nullptr; app = app->get_parent())
      path = app->get_name() + " " + path;
    return fmt::format("\nsee '{}--help'", path);
  }

  /// CLI11 would only say that an argument was not expected.
  void refuse_leftovers(CLI::App& app) const {
    for (CLI::App* const command : app.get_subcommands()) refuse_leftovers(*command);
    const std::vector<std::string> leftovers = app.remaining();
    if (leftovers.empty()) return;
    const std::string& first = leftovers.front();
    std::vector<std::string> known;
    if (first.front() == '-') {
      for (const CLI::Option* const option : app.get_options())
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      const std::string name = first.substr(0, first.find('='));
      throw CommandLineError(fmt::format("unknown option '{}'{}{}", name, did_you_mean(name, known), help_hint()));
    }
    for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(command->get_name());
    if (!known.empty() && app.get_subcommands().empty())
      throw CommandLineError(fmt::format("unknown command '{}'{}{}", first, did_you_mean(first, known), help_hint()));
    throw CommandLineError(fmt::format("unexpected argument '{}'{}", first, help_hint()));
  }

  /// What every command shares.
  static void finish(CLI::App& app) {
    app.set_help_flag("-h,--help", "Print this help");
    app.allow_extras();
    app.get_formatter()->label("OPTIONS", "options");
    app.get_formatter()->label("SUBCOMMAND", "COMMAND");
    app.get_formatter()->label("SUBCOMMANDS", "COMMANDS");
    for (CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
      command->group("Commands");
      finish(*command);
    }
  }

  static void add_json(CLI::App& command, bool& json) {
    command.add_flag("--json", json, "Print JSON; messages too, as objects like {\"error\": ...} on stderr");
  }

  static void add_call(CLI::App& command, CallText& call) {
    command.add_option("OP", call.op, "The op's name; 'kiln ops' lists them")->required()->type_name("");
    // One value each: CLI11 would have '--shape 4x4 add' swallow the op's name.
    command
        .add_option("--shape", call.shapes,
                    "Shape of the inputs, like 4096x4096 or scalar; once for all required ones, or once per input")
        ->type_name("SHAPE")
        ->allow_extra_args(false);
    command
        .add_option("--dtype", call.dtypes,
                    "Dtype of the inputs, like f32, bf16, i64 (default f32); once for all, or once per input")
        ->type_name("DTYPE")
        ->allow_extra_args(false);
    command.add_option("--attr", call.attributes, "Attributes of the op")->type_name("NAME=VALUE");
  }

  /// Of commands that make inputs; an inspection has none.
  static void add_pinned(CLI::App& command, CallText& call) {
    command
        .add_option("--pinned", call.pinned,
                    "An input that is to lie in page-locked host memory, where a GPU reaches it over the bus")
        ->type_name("INPUT")
        ->allow_extra_args(false);
  }

  void add_doctor() {
    CLI::App& command =
        *app_.add_subcommand("doctor", "What this machine offers, what is missing and what to do about it");
    add_json(command, doctor_.json);
    command.footer("Exit status 0 when at least one target works.");
    command.final_callback([this] { action_ = [this] { return doctor_command(doctor_); }; });
  }

  void add_ops() {
    CLI::App& command =
        *app_.add_subcommand("ops", "The ops there are; one op's signature, dtypes, variants and tunables");
    command.add_option("OP", ops_.op, "Show this op in full")->type_name("");
    add_json(command, ops_.json);
    command.footer("Examples:\n  kiln ops\n  kiln ops add");
    command.final_callback([this] { action_ = [this] { return ops_command(ops_); }; });
  }

  void add_run() {
    CLI::App& command = *app_.add_subcommand("run", "Run an op on random or .npy inputs: time, GB/s, and what ran");
    add_call(command, run_.call);
    add_pinned(command, run_.call);
    command.add_option("--device", run_.device, "cpu, cuda or cuda:N (default: cuda:0 where there is one, else cpu)")
        ->type_name("DEVICE");
    command.add_option("--config", run_.config, "Tunables, like \"BLOCK_SIZE=128\" (default: the op's choice)")
        ->type_name("CONFIG");
    command.add_option("--input", run_.input_files, "Inputs as .npy files, in the op's order, instead of random ones")
        ->type_name("FILE");
    command
        .add_option("--output", run_.output_files, "Write the outputs as .npy files; not written when --check fails")
        ->type_name("FILE");
    command.add_flag("--output-bits", run_.output_bits,
                     "Write bf16 as u16 and fp8 as u8 bits (NumPy lacks these dtypes)");
    command.add_option("--seed", run_.seed, "Seed of the random inputs (default 0)")
        ->type_name("N")
        ->check(whole_number_problem);
    command.add_option("--repeat", run_.repeat, "Timed runs; the median is shown (default 10)")
        ->type_name("N")
        ->check(CLI::Range(1, std::numeric_limits<int>::max()).description(""));
    command.add_flag("--check", run_.check, "Compare with the op's reference on the CPU; exit status 1 when wrong");
    command.add_flag("--debug", run_.debug,
                     "Look at one call closely: layouts, NaN and Inf, first and later times, the reference, memory");
    add_profile(command, run_.profile, run_.measured_peak);
    add_json(command, run_.json);
    command.footer(
        "bf16 and fp8 inputs come from .npy files of their bits: --input x.npy (u16) --dtype bf16.\n\nExamples:\n"
        "  kiln run add --shape 4096x4096 --dtype bf16 --check\n"
        "  kiln run add --shape 4096x4096 --shape 4096 --attr alpha=2\n"
        "  kiln run normal --attr size=4096x4096 --attr seed=1\n"
        "  kiln run softmax --input x.npy --debug\n"
        "  kiln run add --input a.npy --input b.npy --output c.npy --device cpu");
    command.final_callback([this] { action_ = [this] { return run_command(run_); }; });
  }

  void add_bench() {
    CLI::App& command =
        *app_.add_subcommand("bench", "Time an op: median with its interval, GB/s, beside another config");
    add_call(command, bench_.call);
    add_pinned(command, bench_.call);
    command.add_option("--device", bench_.device, "cpu, cuda or cuda:N (default: cuda:0 where there is one, else cpu)")
        ->type_name("DEVICE");
    command.add_option("--config", bench_.config, "Tunables (default: what a dispatch takes, tuned or not)")
        ->type_name("CONFIG");
    command
        .add_option("--against", bench_.against,
                    "Take turns with: default (the untuned config), reference, or a CONFIG")
        ->type_name("WHAT");
    command
        .add_option("--sweep", bench_.sweep,
                    "Many sizes: of a letter in --shape, like N=1:64K or N=1,100,3000, or of the call in bytes, like "
                    "1K:256M")
        ->type_name("[SIZES]")
        ->expected(0, 1);
    command
        .add_option("--sweep-budget", bench_.sweep_budget,
                    "Time for all sizes of a sweep (default 1min, or twice their --budget); larger ones are left out")
        ->type_name("TIME");
    command.add_option("--plot", bench_.plot, "Draw the sweep (needs python3 with matplotlib)")->type_name("FILE.png");
    command.add_option("--budget", bench_.budget, "Time at most, like 3s (default 3s; in a sweep 0.5s for each size)")
        ->type_name("TIME");
    add_measuring(command, bench_.measure, bench_.l2);
    command.add_option("--seed", bench_.seed, "Seed of the random inputs (default 0)")
        ->type_name("N")
        ->check(whole_number_problem);
    add_profile(command, bench_.profile, bench_.measured_peak);
    add_json(command, bench_.json);
    command.footer(
        "Samples are taken until the 95% interval of the median is 1% or 0.5 us wide.\n\nExamples:\n"
        "  kiln bench matmul --shape 4096x4096 --dtype bf16\n"
        "  kiln bench sum --shape 4096x4096 --against default\n"
        "  kiln bench add --shape 1024 --measure graph --l2 hot --config \"BLOCK_SIZE=512 num_warps=2\"\n"
        "  kiln bench add --sweep\n"
        "  kiln bench rms_norm --shape Nx4096 --shape 4096 --sweep N=1:64K --plot rms_norm.png");
    command.final_callback([this, &command] {
      bench_.is_sweep = command.count("--sweep") > 0;
      action_ = [this] { return bench_command(bench_); };
    });
  }

  static void add_profile(CLI::App& command, std::string& profile, bool& measured_peak) {
    CLI::Option* const option =
        command
            .add_option(
                "--profile", profile,
                "Write a trace for Perfetto and print what took how long; the profiler's own time is in the times")
            ->type_name("FILE.json");
    command
        .add_flag("--measured-peak", measured_peak,
                  "In the profile's table, measure the bandwidth of a device that does not state it (some seconds)")
        ->needs(option);
  }

  static void add_measuring(CLI::App& command, std::string& measure, std::string& l2) {
    command.add_option("--measure", measure, "eager or graph: launch each call, or replay a graph (default eager)")
        ->type_name("HOW")
        ->check(CLI::IsMember({"eager", "graph"}).description(""));
    command.add_option("--l2", l2, "flushed or hot caches before each call on a GPU (default flushed)")
        ->type_name("HOW")
        ->check(CLI::IsMember({"flushed", "hot"}).description(""));
  }

  void add_tune() {
    CLI::App& command = *app_.add_subcommand(
        "tune", "Find the fastest config of an op for given shapes, and keep it: later calls use it by themselves");
    add_call(command, tune_.calls.call);
    add_pinned(command, tune_.calls.call);
    command.get_option("OP")->required(false)->description("An op, or all");
    command
        .add_option("--shapes-file", tune_.calls.shapes_file,
                    "A call on each line, like \"4096x4096 4096x4096 bf16 alpha=2\"")
        ->type_name("FILE");
    command.add_option("--from-trace", tune_.calls.trace, "Calls that a process with KILN_TRACE=FILE made")
        ->type_name("FILE");
    command.add_option("--device", tune_.device, "cpu, cuda or cuda:N (default: cuda:0 where there is one, else cpu)")
        ->type_name("DEVICE");
    command.add_option("--budget", tune_.budget, "Time for each call, like 30s, 2min, 500ms (default 30s)")
        ->type_name("TIME");
    command
        .add_option("--strategy", tune_.strategy, "auto, exhaustive, halving, evolutionary or likeliest (default auto)")
        ->type_name("NAME");
    add_measuring(command, tune_.measure, tune_.l2);
    command.add_option("--seed", tune_.seed, "Seed of the random inputs and of the search (default 0)")
        ->type_name("N")
        ->check(whole_number_problem);
    command.add_flag("--retune", tune_.retune, "Take over nothing from a tuning of the last day");
    command.add_option("--plot", tune_.plot, "Draw every config's time (needs python3 with matplotlib)")
        ->type_name("FILE.png");
    add_json(command, tune_.json);
    command.footer(
        "Ctrl-C, SIGTERM and SIGHUP end the tuning and keep what was found; the same command goes on from there.\n\n"
        "Examples:\n"
        "  kiln tune matmul --shape 4096x4096 --dtype bf16\n"
        "  kiln tune sum --shape 4096x4096 --attr dim=1 --budget 10s --plot sum.png\n"
        "  kiln tune matmul --shapes-file shapes.txt --dtype f32 --device cpu\n"
        "  KILN_TRACE=calls.jsonl ./my_engine; kiln tune --from-trace calls.jsonl");
    command.final_callback([this] { action_ = [this] { return tune_command(tune_); }; });
  }

  void add_inspect() {
    CLI::App& command =
        *app_.add_subcommand("inspect", "Show a call's kernel: source, ptx, sass, llvm-ir, asm, resources or costs");
    add_call(command, inspect_.call);
    command.add_option("--emit", inspect_.emit, "source, ptx, sass, llvm-ir, asm, resources or costs (default source)")
        ->type_name("FORM")
        ->check(CLI::IsMember({"source", "ptx", "sass", "llvm-ir", "asm", "resources", "costs"}).description(""));
    command
        .add_option("--device", inspect_.device, "cpu, cuda or cuda:N (default: cuda:0 where there is one, else cpu)")
        ->type_name("DEVICE");
    command.add_option("--target", inspect_.target, "A GPU that need not be here, like sm_90a")->type_name("TARGET");
    command.add_option("--config", inspect_.config, "Tunables, like \"BLOCK_SIZE=128\" (default: the op's choice)")
        ->type_name("CONFIG");
    add_json(command, inspect_.json);
    command.footer(
        "ptx, sass, resources and costs are for GPUs; llvm-ir and asm for the CPU. sass needs cuobjdump or "
        "nvdisasm.\n\nExamples:\n"
        "  kiln inspect add --shape 4096 --dtype f32 --device cpu --emit asm\n"
        "  kiln inspect add --shape 4096x4096 --dtype bf16 --target sm_90a --emit ptx");
    command.final_callback([this] { action_ = [this] { return inspect_command(inspect_); }; });
  }

  CLI::App& add_cache_action(CLI::App& cache, const std::string& name, const std::string& doc, CacheAction action) {
    CLI::App& command = *cache.add_subcommand(name, doc);
    command.footer("");  // in place of the one inherited from `kiln`
    add_json(command, cache_.json);
    command.final_callback([this, action] {
      cache_.action = action;
      action_ = [this] { return cache_command(cache_); };
    });
    return command;
  }

  void add_cache() {
    CLI::App& cache = *app_.add_subcommand("cache", "Look at and tidy the caches: compiled kernels, tuned choices");
    cache.require_subcommand(0, 1);
    add_cache_action(cache, "list", "Every artifact: key, size, age, target, kernel", CacheAction::list)
        .add_flag("--tuning", cache_.tuning, "Every tuning entry instead: key, time, gain, age, device, config, call");
    add_cache_action(cache, "show", "One artifact or tuning entry in full", CacheAction::show)
        .add_option("KEY", cache_.key, "Its key, or the first digits of it")
        ->required()
        ->type_name("");
    add_cache_action(cache, "stats", "Folder, count and size", CacheAction::stats);
    add_cache_action(cache, "verify",
                     "Check every artifact and tuning entry, and say why one is not used; exit status 1 for damage",
                     CacheAction::verify)
        .add_flag("--repair", cache_.repair, "Remove what is damaged");
    CLI::App& prune = add_cache_action(cache, "prune", "Remove what is used least, or no more", CacheAction::prune);
    prune.add_option("--to", cache_.keep, "Least recently used artifacts until this size remains, like 512M")
        ->type_name("SIZE");
    prune.add_flag("--stale-tuning", cache_.stale_tuning, "Tuning entries of changed sources or config spaces");
    CLI::App& clear = add_cache_action(cache, "clear", "Remove every artifact", CacheAction::clear);
    clear.add_flag("--tuning", cache_.tuning, "Every tuning entry instead");
    clear.add_flag("--yes", cache_.yes, "Yes, really");
    add_cache_exchange(cache);
    cache.footer(
        "Examples:\n"
        "  kiln cache list\n"
        "  kiln cache prune --to 512M --stale-tuning\n"
        "  kiln cache export tuned.json && kiln cache import tuned.json");
  }

  void add_cache_exchange(CLI::App& cache) {
    CLI::App& export_command =
        add_cache_action(cache, "export", "Write tuning entries to a file", CacheAction::export_tuning);
    export_command.add_option("FILE", cache_.exchange.output, "The file; - for standard output")
        ->required()
        ->type_name("");
    export_command.add_option("--op", cache_.exchange.op, "Those of one op only")->type_name("OP");
    add_cache_action(cache, "import",
                     "Take over the tuning entries of files; of two for one call the better evidence "
                     "stays",
                     CacheAction::import_tuning)
        .add_option("FILE", cache_.exchange.inputs, "Files that export or merge wrote, or of another cache")
        ->required()
        ->type_name("");
    CLI::App& merge = add_cache_action(cache, "merge", "Merge files of tuning entries into a new file, past the cache",
                                       CacheAction::merge_tuning);
    merge.add_option("OUT", cache_.exchange.output, "The new file; - for standard output")->required()->type_name("");
    merge.add_option("FILE", cache_.exchange.inputs, "The files to merge")->required()->type_name("");
  }

  /// For the list of commands: main_with_arguments hands its words on before this grammar sees them.
  void add_experiment() {
    app_.add_subcommand("experiment", "Repeat one of the experiments that Kiln grew from (needs the Python package)");
  }

  CLI::App app_;
  DoctorOptions doctor_;
  OpsOptions ops_;
  RunOptions run_;
  BenchOptions bench_;
  TuneCommandOptions tune_;
  InspectOptions inspect_;
  CacheOptions cache_;
  std::function<int()> action_;
};

int fail(int status, const char* message) {
  print_error(message);
  return status;
}

}  // namespace

int main_with_arguments(int argc, char** argv) {
  print_messages_as_json(asks_for_json(argc, argv));
  try {
    if (argc > 1 && std::string_view(argv[1]) == "experiment")
      experiment_command(std::span(argv, static_cast<std::size_t>(argc)).subspan(2));
    const int status = CommandLine().run(argc, argv);
    // A full disk behind a redirection shows only here; ferror remembers what earlier writes met.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      return fail(std::max(status, kWorkFailed), "standard output cannot be written; the disk behind it may be full");
    return status;
  } catch (const InputFileError& error) {
    return fail(kWorkFailed, error.what());
  } catch (const UsageError& error) {
    return fail(kWrongCommandLine, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kWorkFailed, "out of memory");
  } catch (const std::exception& error) {
    return fail(kWorkFailed, error.what());
  }
}

int refuse_command_line(int argc, char** argv, const char* message) {
  print_messages_as_json(asks_for_json(argc, argv));
  return fail(kWrongCommandLine, message);
}

}  // namespace kiln::cli
