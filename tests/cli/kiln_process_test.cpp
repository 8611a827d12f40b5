// The command as a user meets it: a process with arguments, two streams and an exit status.
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/npy.hpp"
#include "compiler/compilers.hpp"
#include "core/subprocess.hpp"
#include "registry/inspection/random_input.hpp"
#include "runtime/memory.hpp"
#include "tests/support/kiln_process.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

using nlohmann::json;

/// The path of an .npy file of random numbers.
std::string save_random(const std::string& path, const Dims& shape, DType dtype, std::uint64_t stream) {
  const Tensor tensor = empty(shape, dtype, Device::cpu());
  fill_random(tensor, {}, 1, stream);
  cli::write_npy(path, tensor);
  return path;
}

TEST_F(KilnProcessTest, AloneItPrintsHelp) {
  const SubprocessResult result = kiln({});
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_THAT(result.standard_output, Says("doctor", "run", "kiln run add --shape"));
}

TEST_F(KilnProcessTest, AGroupOfCommandsNeedsOne) {
  const SubprocessResult result = kiln("cache");
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_THAT(result.standard_error, StartsWith("kiln: error: 'kiln cache' needs a command"));
  EXPECT_THAT(result.standard_output, Says("Usage: kiln cache ", "verify"));
}

TEST_F(KilnProcessTest, EveryCommandHasHelp) {
  for (const char* command :
       {"", "doctor", "ops", "run", "inspect", "cache", "cache list", "cache show", "cache stats", "cache verify",
        "cache prune", "cache clear", "cache export", "cache import", "cache merge"}) {
    SCOPED_TRACE(command);
    const SubprocessResult result = kiln(command + Words{"--help"});
    EXPECT_EQ(result.exit_status, 0);
    EXPECT_THAT(result.standard_output, HasSubstr("--help"));
    EXPECT_THAT(result.standard_error, IsEmpty());
  }
  EXPECT_THAT(kiln("--version").standard_output, StartsWith("kiln "));
}

TEST_F(KilnProcessTest, WrongCommandLinesNameTheNearest) {
  EXPECT_THAT(error_of(2, "rnu add"), Says("'rnu'", "'run'"));
  EXPECT_THAT(error_of(2, "cache lst"), HasSubstr("'list'"));
  EXPECT_THAT(error_of(2, "run add --shpae 4"), Says("--shpae", "'--shape'"));
  EXPECT_THAT(error_of(2, "run ad --shape 4"), HasSubstr("add"));
  EXPECT_THAT(error_of(2, "run add --shape 4 --attr alhpa=1"), HasSubstr("alpha"));
  EXPECT_THAT(error_of(2, "run add --shape 4 --dtype float33"), HasSubstr("float33"));
  EXPECT_THAT(error_of(2, "ops sotfmax_of_nothing"), HasSubstr("sotfmax_of_nothing"));
}

TEST_F(KilnProcessTest, WrongValuesAreRefused) {
  error_of(2, "run");
  error_of(2, "run add");
  error_of(2, "run add --shape");
  error_of(2, "run add --shape 4xx4");
  error_of(2, "run add --shape -4");
  error_of(2, "run add --shape 4 --repeat 0");
  error_of(2, "run add --shape 4 --repeat many");
  error_of(2, "run add --shape 4 --seed -1");
  EXPECT_THAT(error_of(2, "run add --shape 4 --seed x"), HasSubstr("0 to 18446744073709551615"));
  error_of(2, "run add --shape 4 --device tpu");
  error_of(2, "run add --shape 4 --device cuda:77");
  error_of(2, "run add --shape 4 --shape 5 --device cpu");
  error_of(2, "run add extra --shape 4");
  error_of(2, "inspect add --shape 4 --emit poem");
  error_of(2, "inspect add --shape 4 --target sm_x");
  error_of(2, "inspect add --shape 4 --device cpu --emit ptx");
  error_of(2, "inspect add --shape 4 --target sm_90a --emit asm");
  error_of(2, "inspect add --shape 4 --target sm_90a --device cpu");
  error_of(2, "cache prune");
  error_of(2, "cache prune --to much");
  error_of(2, "cache show");
  error_of(2, "cache show ffff");
}

TEST_F(KilnProcessTest, OpsListsTheRegistry) {
  EXPECT_THAT(kiln("ops").standard_output, HasSubstr("add("));
  const json ops = json_of("ops");
  EXPECT_TRUE(std::any_of(ops.begin(), ops.end(), [](const json& op) { return op["name"] == "add"; }));
  const json add = json_of("ops add");
  EXPECT_EQ(add["name"], "add");
  EXPECT_FALSE(add["variants"].empty());
  EXPECT_FALSE(add["examples"].empty());
  EXPECT_THAT(kiln("ops add").standard_output, Says("Inputs", "Dtypes", "Variants", "Examples"));
}

TEST_F(KilnProcessTest, DoctorReportsEveryPart) {
  const SubprocessResult result = kiln("doctor --json");
  const json report = json::parse(result.standard_output);
  EXPECT_EQ(result.exit_status, report["works"].get<bool>() ? 0 : 1);
  for (const char* key : {"version", "cpu", "cuda", "cache", "environment", "advice"})
    EXPECT_TRUE(report.contains(key)) << key;
  EXPECT_THAT(kiln("doctor").standard_output, Says("CPU target", "CUDA target", "KILN_CACHE_DIR"));
}

TEST_F(KilnCpuTest, DoctorFindsTheCpu) {
  const json report = json_of("doctor");
  EXPECT_TRUE(report["works"]);
  EXPECT_TRUE(report["cpu"]["self_test"]["ok"]);
  EXPECT_GE(report["cpu"]["vector_bytes"].get<int>(), 16);
  EXPECT_THAT(kiln("doctor").standard_output, HasSubstr("vectors of"));
}

TEST_F(KilnCpuTest, RunChecksAgainstTheReference) {
  const json report = json_of("run add --shape 60x50 --dtype bf16 --device cpu --check --attr alpha=2");
  EXPECT_EQ(report["device"], "cpu");
  EXPECT_EQ(report["outputs"][0]["dtype"], "bf16");
  EXPECT_EQ(report["outputs"][0]["shape"], json({60, 50}));
  EXPECT_TRUE(report["check"][0]["ok"]);
  EXPECT_EQ(report["check"][0]["elements"], 3000);
  EXPECT_EQ(report["kernels"][0]["origin"], "compiled");
  EXPECT_EQ(report["config_source"], "default");
  EXPECT_GT(report["time"]["median_us"], 0);
  // The next process finds the artifact on disk.
  EXPECT_EQ(json_of("run add --shape 60x50 --dtype bf16 --device cpu --attr alpha=2")["kernels"][0]["origin"], "disk");
  EXPECT_THAT(kiln("run add --shape 7 --shape 3x7 --device cpu --check").standard_output,
              Says("GB/s", "check", "ok", "artifact"));
}

TEST_F(KilnCpuTest, RunTakesAConfig) {
  const json config = json_of("ops add")["variants"][0]["spaces"];
  std::string name, value;
  for (const auto& [target, space] : config.items()) {
    if (target.rfind("cpu:", 0) != 0) continue;
    const auto tunable = space["tunables"].begin();
    name = tunable.key();
    value = std::to_string(tunable.value().back().get<int>());
  }
  ASSERT_FALSE(name.empty());
  const json report =
      json_of({"run", "add", "--shape", "512", "--device", "cpu", "--config", name + "=" + value, "--check"});
  EXPECT_EQ(report["config_source"], "given");
  EXPECT_EQ(report["config"][name], std::stoi(value));
  error_of(2, {"run", "add", "--shape", "512", "--device", "cpu", "--config", name + "=3"});
  error_of(2, "run add --shape 512 --device cpu --config NO_SUCH=64");
}

TEST_F(KilnCpuTest, RunReadsAndWritesFiles) {
  const std::string a = save_random(directory_.file("a.npy"), {40, 30}, DType::f32, 0),
                    b = save_random(directory_.file("b.npy"), {40, 30}, DType::f32, 1),
                    row = save_random(directory_.file("row.npy"), {30}, DType::f16, 2);
  const std::string c = directory_.file("c.npy");
  json_of({"run", "add", "--input", a, "--input", b, "--output", c, "--device", "cpu", "--check"});
  const Tensor x = cli::read_npy(a), y = cli::read_npy(b), sum = cli::read_npy(c);
  ASSERT_EQ(sum.shape(), (Dims{40, 30}));
  for (int i = 0; i < 1200; ++i) ASSERT_EQ(sum.data_as<float>()[i], x.data_as<float>()[i] + y.data_as<float>()[i]);

  const json broadcast = json_of({"run", "add", "--input", a, row, "--output", c, "--device", "cpu", "--check"});
  EXPECT_EQ(broadcast["inputs"][1]["dtype"], "f16");
  EXPECT_EQ(cli::read_npy(c).dtype(), DType::f32);
}

TEST_F(KilnCpuTest, ScalarsAndEmptyArraysWork) {
  const std::string a = save_random(directory_.file("a.npy"), {}, DType::f32, 0), c = directory_.file("c.npy");
  json_of({"run", "neg", "--input", a, "--output", c, "--device", "cpu", "--check"});
  EXPECT_EQ(cli::read_npy(c).shape().size(), 0);
  const std::string none = save_random(directory_.file("none.npy"), {0, 5}, DType::f32, 0);
  json_of({"run", "neg", "--input", none, "--output", c, "--device", "cpu", "--check"});
  EXPECT_EQ(cli::read_npy(c).shape(), (Dims{0, 5}));
  json_of("run add --shape 0x5 --shape 5 --device cpu --check");
}

TEST_F(KilnCpuTest, NarrowFloatsTravelAsBits) {
  const std::string bits = save_random(directory_.file("bits.npy"), {64}, DType::bf16, 0), c = directory_.file("c.npy");
  EXPECT_EQ(cli::read_npy(bits).dtype(), DType::u16);
  EXPECT_THAT(error_of(2, {"run", "neg", "--input", bits, "--dtype", "bf16", "--output", c, "--device", "cpu"}),
              HasSubstr("--output-bits"));
  EXPECT_FALSE(std::filesystem::exists(c));
  json_of(
      {"run", "neg", "--input", bits, "--dtype", "bf16", "--output", c, "--output-bits", "--device", "cpu", "--check"});
  const Tensor in = cli::read_npy(bits), out = cli::read_npy(c);
  ASSERT_EQ(out.dtype(), DType::u16);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(out.data_as<std::uint16_t>()[i], in.data_as<std::uint16_t>()[i] ^ 0x8000);
}

TEST_F(KilnCpuTest, BadFilesGiveOneAndNothingIsWritten) {
  const std::string a = save_random(directory_.file("a.npy"), {4, 5}, DType::f32, 0),
                    other = save_random(directory_.file("other.npy"), {4, 6}, DType::f32, 1),
                    c = directory_.file("c.npy");
  const std::string cut = directory_.file("cut.npy");
  std::filesystem::copy_file(a, cut);
  std::filesystem::resize_file(cut, 150);
  EXPECT_THAT(error_of(1, {"run", "add", "--input", a, cut, "--output", c, "--device", "cpu"}),
              Says("cut.npy", "truncated"));
  EXPECT_THAT(error_of(1, {"run", "add", "--input", a, other, "--output", c, "--device", "cpu"}),
              Says("(4, 5)", "(4, 6)"));
  EXPECT_THAT(error_of(1, {"run", "add", "--input", a, directory_.file("absent.npy"), "--output", c}),
              HasSubstr("absent.npy"));
  EXPECT_THAT(error_of(1, {"run", "add", "--input", a, a, "--dtype", "f16", "--output", c}), HasSubstr("holds f32"));
  EXPECT_THAT(
      error_of(1, {"run", "add", "--input", a, a, "--output", directory_.file("absent/c.npy"), "--device", "cpu"}),
      HasSubstr("absent"));
  EXPECT_THAT(error_of(2, {"run", "where", "--input", a, "--output", c}), HasSubstr("where"));
  EXPECT_THAT(error_of(2, {"run", "add", "--input", a, "--output", c, "--device", "cpu"}), HasSubstr("'other'"));
  EXPECT_THAT(error_of(2, {"run", "add", "--input", a, "--attr", "other=two", "--output", c}),
              HasSubstr("other=two: expected number"));
  EXPECT_THAT(error_of(2, {"run", "add", "--input", a, a, "--shape", "4"}), HasSubstr("--shape"));
  EXPECT_THAT(error_of(2, {"run", "add", "--input", a, a, "--output", c, "--output", c, "--device", "cpu"}),
              HasSubstr("--output"));
  EXPECT_FALSE(std::filesystem::exists(c));
}

TEST_F(KilnCpuTest, InspectShowsEachForm) {
  const auto emit = [](const std::string& form) {
    const SubprocessResult result = kiln("inspect add --shape 4096 --dtype f32 --device cpu --emit " + form);
    EXPECT_EQ(result.exit_status, 0) << result.standard_error;
    return result.standard_output;
  };
  EXPECT_THAT(emit("source"), Says("kiln_entry", "KILN_KERNEL"));
  EXPECT_THAT(emit("llvm-ir"), HasSubstr("define"));
  EXPECT_THAT(emit("asm"), HasSubstr("kiln_entry:"));
  EXPECT_THAT(json_of("inspect add --shape 4096 --device cpu --emit asm")["kernels"][0]["text"].get<std::string>(),
              HasSubstr("ret"));
}

TEST_F(KilnProcessTest, InspectCompilesForAGpuThatIsNotHere) {
  if (const std::string problem = compiler_problem(DeviceType::cuda); !problem.empty()) GTEST_SKIP() << problem;
  const auto with = [](const std::string& form) -> Words {
    return "inspect add --shape 4096 --dtype bf16 --target sm_90a --emit " + form;
  };
  EXPECT_THAT(kiln(with("ptx")).standard_output, HasSubstr(".target sm_90a"));
  const json resources = json_of(with("resources"))["kernels"][0]["resources"];
  EXPECT_GT(resources["registers"], 0);
  EXPECT_EQ(resources["spill_store_bytes"], 0);
  EXPECT_EQ(resources["pipeline_shared_bytes"], 0);
  EXPECT_EQ(resources["serializes_products"], false);
  EXPECT_GT(resources["occupancy"]["programs"], 0);
  EXPECT_FALSE(resources["occupancy"]["limited_by"].empty());
  EXPECT_THAT(kiln(with("costs")).standard_output,
              Says("global loads", "kernel.hpp:", "tl::store", "registers, 0 bytes spilled"));

  // A disassembler of our own, found first on PATH, stands for the toolkit's.
  const std::string script = directory_.file("cuobjdump");
  std::ofstream(script) << "#!/bin/sh\nhead -c 4 \"$2\" | tail -c 3\necho \" $1 MOV R1\"\n";
  ::chmod(script.c_str(), 0755);
  const ScopedVariable path("PATH", directory_.path().string() + ":" + ::getenv("PATH"));
  EXPECT_EQ(kiln(with("sass")).standard_output, "ELF --dump-sass MOV R1\n");
  std::ofstream(script) << "#!/bin/sh\necho no such architecture >&2\nexit 3\n";
  EXPECT_THAT(error_of(1, with("sass")), HasSubstr("no such architecture"));
}

TEST_F(KilnCpuTest, CacheIsListedVerifiedAndCleared) {
  EXPECT_EQ(json_of("cache list"), json::array());
  for (const std::string op : {"add", "mul", "neg"}) json_of({"run", op, "--shape", "64", "--device", "cpu"});
  const json list = json_of("cache list");
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0]["kind"], "object");
  EXPECT_THAT(list[0]["name"].get<std::string>(), HasSubstr("Neg"));  // newest first
  const std::string key = list[0]["key"];
  EXPECT_EQ(json_of({"cache", "show", key.substr(0, 12)})["key"], key);
  EXPECT_THAT(kiln({"cache", "show", key}).standard_output, HasSubstr("kiln_entry"));
  EXPECT_EQ(json_of("cache stats")["artifacts"], 3);
  EXPECT_EQ(json_of("cache verify")["damaged"], json::array());
  // Looking must not change which artifact is the least recently used.
  EXPECT_EQ(json_of("cache list"), list);

  std::string entry;
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory_.file("cache")))
    if (file.path().filename().string().rfind(key.substr(2), 0) == 0) entry = file.path();
  ASSERT_FALSE(entry.empty());
  std::filesystem::resize_file(entry, std::filesystem::file_size(entry) - 1);
  const SubprocessResult damaged = kiln("cache verify");
  EXPECT_EQ(damaged.exit_status, 1);
  EXPECT_THAT(damaged.standard_output, HasSubstr(key));
  EXPECT_THAT(damaged.standard_error, AllOf(StartsWith("kiln: error: "), HasSubstr("--repair")));
  EXPECT_THAT(kiln("cache list").standard_output, HasSubstr("damaged"));
  EXPECT_EQ(json_of("cache verify --repair")["removed"], 1);
  EXPECT_EQ(json_of("cache verify")["artifacts"], 2);

  EXPECT_THAT(error_of(2, "cache clear"), Says("2 artifacts", "--yes"));
  EXPECT_EQ(json_of("cache prune --to 1G")["removed"], 0);
  EXPECT_EQ(json_of("cache prune --to 0")["removed"], 2);
  json_of("run add --shape 64 --device cpu");
  EXPECT_EQ(json_of("cache clear --yes")["removed"], 1);
  EXPECT_EQ(json_of("cache list"), json::array());
}

TEST_F(KilnProcessTest, TheCacheRemovesNothingThatIsNotItsOwn) {
  namespace fs = std::filesystem;
  const fs::path artifacts = fs::path(directory_.file("cache")) / "artifacts";
  const auto put_strangers = [&] {
    for (const char* file : {"staging/release/app.tar", "locks/poetry.lock"}) {
      fs::create_directories((artifacts / file).parent_path());
      std::ofstream(artifacts / file) << "mine";
    }
  };
  // Kiln's folder, in which somebody put something.
  EXPECT_EQ(json_of("cache list"), json::array());
  put_strangers();
  for (const char* command : {"cache prune --to 4G", "cache clear --yes", "cache verify"}) {
    EXPECT_EQ(json_of(command)["left"], json::array({"locks/poetry.lock", "staging/release"}));
    EXPECT_THAT(kiln(command).standard_output, HasSubstr((artifacts / "staging/release").string()));
  }
  // A folder of somebody's, by the name of Kiln's.
  fs::remove(artifacts / "kiln-store");
  EXPECT_THAT(error_of(1, "cache prune --to 4G"), Says("locks/poetry.lock", "KILN_CACHE_DIR"));
  EXPECT_TRUE(fs::exists(artifacts / "staging/release/app.tar"));
  EXPECT_TRUE(fs::exists(artifacts / "locks/poetry.lock"));
}

TEST_F(KilnProcessTest, ACacheThatCannotBeUsedIsSaidSo) {
  std::ofstream(directory_.file("cache")) << "a file in the folder's place";
  EXPECT_THAT(error_of(1, "cache list"), HasSubstr("cache"));
  EXPECT_THAT(json::parse(kiln("doctor --json").standard_output)["cache"]["state"], Not("usable"));
}

TEST_F(KilnCpuTest, AnEmptyResultHasNoKernel) {
  const json report = json_of("run add --shape 0x5 --device cpu --check");
  EXPECT_EQ(report["kernels"], json::array());
  EXPECT_TRUE(report["check"][0]["ok"]);
  EXPECT_THAT(kiln("run add --shape 0x5 --device cpu").standard_output,
              AllOf(HasSubstr("every output is empty"), Not(HasSubstr("artifact"))));
}

TEST_F(KilnCpuTest, FileNamesNeedNotBeUtf8) {
  const std::string a = save_random(directory_.file("\xff.npy"), {4}, DType::f32, 0);
  EXPECT_EQ(json_of({"run", "neg", "--input", a, "--device", "cpu"})["outputs"][0]["shape"], json({4}));
  const ScopedVariable cache("KILN_CACHE_DIR", directory_.file("cache-\xff"));
  json_of("doctor");
  json_of("cache stats");
}

TEST_F(KilnCpuTest, RunWarnsOfACacheThatItCannotWrite) {
  std::ofstream(directory_.file("cache")) << "a file in the folder's place";
  const SubprocessResult result = kiln("run add --shape 4 --device cpu --check --json");
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_TRUE(json::parse(result.standard_output)["check"][0]["ok"]);
  EXPECT_THAT(json::parse(result.standard_error)["warning"].get<std::string>(), HasSubstr(directory_.file("cache")));
  const SubprocessResult text = kiln("run add --shape 4 --device cpu");
  EXPECT_THAT(text.standard_error, AllOf(StartsWith("kiln: warning: "), HasSubstr(directory_.file("cache"))));
}

TEST_F(KilnProcessTest, OutputThatCannotBeWrittenIsAnError) {
  const auto result = run_subprocess({"sh", "-c", "'" + kiln_program() + "' ops > /dev/full"});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->exit_status, 1);
  EXPECT_THAT(result->standard_error, HasSubstr("standard output cannot be written"));
}

TEST_F(KilnCpuTest, ProfileWritesATraceAndPrintsTheTable) {
  const std::string trace = directory_.file("trace.json");
  for (const char* const command : {"run", "bench"}) {
    const SubprocessResult result = kiln({command, "add", "--shape", "100x30", "--device", "cpu", "--profile", trace});
    EXPECT_EQ(result.exit_status, 0) << result.standard_error;
    EXPECT_THAT(result.standard_output, Says("profile of ", "100x30, 100x30 -> 100x30", "trace: " + trace));
    std::size_t kernels = 0;
    const json parsed = json::parse(std::ifstream(trace));
    for (const json& event : parsed.at("traceEvents"))
      kernels += event.at("ph") == "X" && event.at("cat") == "kernel" && event.at("name") == "add" ? 1 : 0;
    EXPECT_GE(kernels, 10u);
    std::filesystem::remove(trace);
  }
  json_of({"run", "add", "--shape", "8", "--device", "cpu", "--profile", trace});
  EXPECT_TRUE(std::filesystem::exists(trace));
}

TEST_F(KilnCpuTest, AProfileTakesAMeasuredPeakWhereItIsAskedFor) {
  const std::string trace = directory_.file("trace.json");
  const Words command = "run add --shape 100x30 --device cpu --profile " + trace;
  EXPECT_THAT(kiln(command).standard_output, HasSubstr("no peak of cpu is known"));
  const SubprocessResult result = kiln(command + "--measured-peak");
  EXPECT_EQ(result.exit_status, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, AllOf(Not(HasSubstr("no peak of")), HasSubstr("%\n")));
  EXPECT_THAT(error_of(2, "run add --shape 8 --device cpu --measured-peak"), HasSubstr("--profile"));
}

TEST_F(KilnCpuTest, ProfileIntoAFileThatCannotBeIsRefusedFirst) {
  for (const char* const command : {"run", "bench"}) {
    const std::string error =
        error_of(2, {command, "add", "--shape", "8", "--device", "cpu", "--profile", directory_.file("no/trace.json")});
    EXPECT_THAT(error, Says("--profile: cannot write '", "there is no folder"));
    error_of(2, {command, "add", "--shape", "8", "--device", "cpu", "--profile", directory_.path().string()});
  }
  EXPECT_FALSE(std::filesystem::exists(directory_.file("cache")));  // nothing was compiled
}

}  // namespace
}  // namespace kiln::test
