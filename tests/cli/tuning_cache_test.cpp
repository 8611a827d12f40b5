// `kiln cache` over the tuning database, as a process.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autotune/database.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/tuned_config.hpp"
#include "registry/plan/validation.hpp"
#include "registry/tuning/function_tuning.hpp"
#include "runtime/memory.hpp"
#include "tests/support/kiln_process.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/tuned_entry.hpp"

namespace kiln::test {
namespace {

using nlohmann::json;

class TuningCacheTest : public KilnProcessTest {
 protected:
  static SubprocessResult kiln(const Words& arguments) { return run_kiln("cache" + arguments); }
  static std::string error_of(int status, const Words& arguments) {
    return KilnProcessTest::error_of(status, "cache" + arguments);
  }
  static json json_of(const Words& arguments, int status = 0) {
    return KilnProcessTest::json_of("cache" + arguments, status);
  }

  /// add of two vectors, as tuned on this machine's CPU: the default won.
  static TuningEntry usable_entry(std::int64_t size) {
    const OpSpec& spec = Registry::process().get("add");
    const Variant& variant = spec.variants.front();
    const Tensor x = empty({size}, DType::f32, Device::cpu());
    const TensorView inputs[] = {x.view(), x.view()}, outputs[] = {x.view()};
    const Call call = validated_call(spec, inputs, {}, {.outputs = outputs});
    const Target target = target_of(Device::cpu());
    TuningEntry entry = tuned_entry(1);
    entry.key = tuning_key(call, variant, target);
    entry.config = entry.default_config = variant.default_config(call.seen_by_spec(), target);
    entry.tried = {measured(entry.config, 20)};
    return entry;
  }

  void record(const std::vector<TuningEntry>& entries) const {
    TuningDatabase database(directory_.path() / "cache" / "tuning");
    database.record(entries);
    ASSERT_EQ(database.problem(), "");
  }
};

TEST_F(TuningCacheTest, EntriesAreListedAndShown) {
  EXPECT_EQ(json_of("list --tuning"), json::array());
  EXPECT_THAT(kiln("list --tuning").standard_output, HasSubstr("0 tuning entries"));
  record({tuned_entry(64), usable_entry(100)});
  const json list = json_of("list --tuning");
  ASSERT_THAT(list, SizeIs(2));
  EXPECT_FALSE(list[0].contains("tried"));
  const std::string key = hash_of(tuned_key(64)).hex();
  const auto text = kiln("list --tuning").standard_output;
  EXPECT_THAT(text, Says("NVIDIA H200 (132)", "1.333x", "BLOCK_M=128 num_warps=4",
                         "matmul tile (bf16, bf16) 64x4096, 4096x1024", "150 us", "2 tuning entries"));
  EXPECT_EQ(json_of("stats")["tuning_entries"], 2);

  const json shown = json_of({"show", key.substr(0, 12)});
  EXPECT_EQ(shown["key"], key);
  EXPECT_EQ(shown["config"], "BLOCK_M=128 num_warps=4");
  EXPECT_THAT(shown["tried"], SizeIs(3));
  EXPECT_THAT(shown["history"], SizeIs(1));
  EXPECT_THAT(kiln({"show", key}).standard_output,
              Says("graph, flushed L2; exhaustive search; driver 580.65.06, nvrtc 13.0", "148.5 to 151.5 us",
                   "uncompiled", "too many registers", "2026-11-20T18:40:00Z"));
  EXPECT_THAT(error_of(2, "show xyz"), HasSubstr("'xyz'"));
  // Artifacts are another list.
  EXPECT_EQ(json_of("list"), json::array());
}

TEST_F(TuningCacheTest, VerifySaysWhyAnEntryIsNotUsed) {
  std::vector<TuningEntry> entries(8, usable_entry(100));
  entries[1].key.device_model = "NVIDIA H200";
  entries[2].key.processors += 1;
  entries[3].key.kernel_hash = std::string(32, '0');
  entries[4].key.space_hash = std::string(32, '0');
  entries[4].config = entries[4].default_config = {{"NO_SUCH", 1}};
  entries[4].tried = {measured(entries[4].config, 20)};
  entries[5].key.op = "of_another_program";
  entries[6].key.variant = "removed";
  entries[7].key.op = "my_module.scaled";
  entries[7].key.variant = kFunctionVariant;
  record(entries);
  const json verified = json_of("verify")["tuning"];
  EXPECT_EQ(verified["entries"], 8);
  EXPECT_EQ(verified["usable"], 1);
  EXPECT_EQ(verified["damaged"], json::array());
  ASSERT_THAT(verified["unusable"], SizeIs(7));
  const std::string text = kiln("verify").standard_output;
  EXPECT_THAT(text,
              Says("it is of NVIDIA H200 with", "and this machine has", "the kernel's source has changed since",
                   "the config space has changed since: there is no tunable 'NO_SUCH'",
                   "there is no op 'of_another_program' in this program", "op 'add' has no variant 'removed' any more",
                   "it is of a function", "8 tuning entries checked, 1 usable here, 0 damaged"));

  EXPECT_EQ(json_of("prune --stale-tuning")["tuning_removed"], 3);
  const json left = json_of("verify")["tuning"];
  EXPECT_EQ(left["entries"], 5);
  for (const json& entry : left["unusable"]) EXPECT_EQ(entry["state"], "elsewhere");
}

TEST_F(TuningCacheTest, VerifyNamesDamageAndRepairsIt) {
  record({tuned_entry(16), tuned_entry(64)});
  const std::string file = directory_.file("cache/tuning/NVIDIA_H200.json");
  std::string text = read_text(file);
  text.replace(text.find("\"processors\": 132"), 17, "\"processors\": \"1\"");
  write_text(file, text);
  const SubprocessResult damaged = kiln("verify");
  EXPECT_EQ(damaged.exit_status, 1);
  EXPECT_THAT(damaged.standard_output,
              HasSubstr("entry 1 (matmul 16x4096, 4096x1024): 'processors' is \"1\"; expected a whole number"));
  EXPECT_THAT(damaged.standard_error, HasSubstr("1 entry of the cache is damaged"));
  EXPECT_THAT(kiln("list --tuning").standard_output, HasSubstr("see 'kiln cache verify'"));
  EXPECT_EQ(kiln("verify --repair").exit_status, 0);
  EXPECT_EQ(json_of("verify")["tuning"]["entries"], 1);

  write_text(file, text.substr(0, text.size() / 2));
  EXPECT_EQ(kiln("verify").exit_status, 1);
  EXPECT_EQ(kiln("verify --repair").exit_status, 0);
  EXPECT_EQ(kiln("verify").exit_status, 0);
  EXPECT_TRUE(std::filesystem::exists(file + ".damaged"));
}

TEST_F(TuningCacheTest, EntriesTravelInFiles) {
  record({tuned_entry(64), usable_entry(100)});
  const std::string all = directory_.file("all.json");
  const std::string some = directory_.file("some.json");
  EXPECT_EQ(json_of({"export", all})["entries"], 2);
  EXPECT_EQ(json_of({"export", some, "--op", "matmul"})["entries"], 1);
  EXPECT_EQ(kiln("export -").standard_output, read_text(all));
  EXPECT_THAT(error_of(2, {"export", some, "--op", "softmax"}), HasSubstr("no tuning entry of op 'softmax'"));

  EXPECT_THAT(error_of(2, "clear --tuning"), Says("2 tuning entries", "--tuning --yes"));
  EXPECT_EQ(json_of("clear --tuning --yes")["tuning_removed"], 2);
  EXPECT_EQ(json_of("list --tuning"), json::array());

  // Of two the better evidence stays, and both are shown.
  record({tuned_entry(64, 120, kDate - 100)});
  const auto imported = kiln({"import", all});
  EXPECT_EQ(imported.exit_status, 0) << imported.standard_error;
  EXPECT_THAT(imported.standard_output, Says("replaced: matmul tile", "was      BLOCK_M=128 num_warps=4  120 us",
                                             "now      BLOCK_M=128 num_warps=4  150 us", "because  a later date",
                                             "drift: ", "1 added, 1 replaced, 0 kept, 0 identical"));
  EXPECT_THAT(kiln({"import", all, some}).standard_output, HasSubstr("0 added, 0 replaced, 0 kept, 3 identical"));
  EXPECT_EQ(json_of("verify")["tuning"]["usable"], 1);
}

TEST_F(TuningCacheTest, FilesAreMergedPastTheCache) {
  record({tuned_entry(64), tuned_entry(128)});
  const std::string first = directory_.file("first.json");
  const std::string second = directory_.file("second.json");
  const std::string merged = directory_.file("merged.json");
  kiln({"export", first});
  kiln("clear --tuning --yes");
  record({tuned_entry(128, 150, kDate - 1), tuned_entry(256)});
  kiln({"export", second});
  const json outcomes = json_of({"merge", merged, first, second});
  ASSERT_THAT(outcomes, SizeIs(4));
  EXPECT_EQ(outcomes[2]["outcome"], "kept");
  EXPECT_EQ(outcomes[2]["reason"], "a later date (2026-11-20T18:40:00Z against 2026-11-20T18:39:59Z)");
  EXPECT_EQ(outcomes[2]["former"]["date"], "2026-11-20T18:40:00Z");
  EXPECT_THAT(parse_document(read_text(merged)).entries, SizeIs(3));
  EXPECT_THAT(json_of("list --tuning"), SizeIs(2)) << "the cache is left alone";
  EXPECT_THAT(error_of(2, {"merge", merged, first}), HasSubstr("exists already"));
  EXPECT_THAT(kiln({"merge", "-", first, second}).standard_output, read_text(merged));
}

TEST_F(TuningCacheTest, FilesThatAreNoDatabasesAreRefused) {
  EXPECT_THAT(error_of(1, {"import", directory_.file("absent.json")}), HasSubstr("No such file"));
  EXPECT_THAT(error_of(1, {"import", directory_.path().string()}), HasSubstr("it is a folder"));
  const std::string file = directory_.file("file.json");
  write_text(file, "not JSON");
  EXPECT_THAT(error_of(1, {"import", file}), Says("holds no tuning entries", "no JSON"));
  write_text(file, R"({"format": "kiln-tuning", "schema_version": 7, "entries": []})");
  EXPECT_THAT(error_of(1, {"merge", directory_.file("out.json"), file}), HasSubstr("schema version is 7"));

  // What is sound in a damaged file is taken over.
  record({tuned_entry(16), tuned_entry(64)});
  kiln({"export", file});
  kiln("clear --tuning --yes");
  std::string text = read_text(file);
  text.replace(text.find("\"date\": \"2026"), 13, "\"date\": \"soon");
  write_text(file, text);
  const SubprocessResult partly = kiln({"import", file});
  EXPECT_EQ(partly.exit_status, 1);
  EXPECT_THAT(partly.standard_error, Says("entry 1 (matmul 16x4096", "'date' is \"soon"));
  EXPECT_THAT(partly.standard_output, HasSubstr("1 added"));
  EXPECT_THAT(json_of("list --tuning"), SizeIs(1));
}

TEST_F(TuningCacheTest, AFolderThatCannotBeWrittenIsSaidSo) {
  record({tuned_entry(16)});
  const std::string file = directory_.file("file.json");
  kiln({"export", file});
  std::filesystem::remove_all(directory_.file("cache/tuning"));
  write_text(directory_.file("cache/tuning"), "a file in the folder's place");
  EXPECT_THAT(error_of(1, {"import", file}), Says("not everything was imported", "tuning"));
  EXPECT_EQ(kiln("verify").exit_status, 1);
  EXPECT_THAT(error_of(1, {"export", directory_.file("no/such/folder.json")}), HasSubstr("there is no folder"));
}

TEST_F(TuningCacheTest, WrongCommandLinesAreRefused) {
  EXPECT_THAT(error_of(2, "prune"), Says("--to SIZE", "--stale-tuning"));
  error_of(2, "export");
  error_of(2, "import");
  error_of(2, {"merge", directory_.file("out.json")});
  EXPECT_THAT(error_of(2, "clear --tunning"), HasSubstr("'--tuning'"));
}

}  // namespace
}  // namespace kiln::test
