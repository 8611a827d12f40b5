#include "registry/tuning/call_trace.hpp"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/errors.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/scoped_variable.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

TracedCall sample_call() {
  TracedCall call{"linear", DeviceType::cuda, {}, {}};
  call.inputs.push_back(dense_view(nullptr, DType::bf16, {16, 64}, Device::cuda()));
  call.inputs.push_back(TensorView{nullptr, DType::bf16, Device::cuda(), {64, 32}, {1, 64}});
  call.inputs.push_back(std::nullopt);
  call.inputs.push_back(dense_view(nullptr, DType::i32, {}, Device::cpu()));  // a scalar that is there, in host memory
  call.attributes = {{"activation", std::string("relu")},
                     {"alpha", 1.0},
                     {"dim", std::int64_t{-1}},
                     {"dims", std::vector<std::int64_t>{0, 2}},
                     {"dtype", DType::f16},
                     {"keepdim", true},
                     {"max", std::numeric_limits<double>::infinity()},
                     {"min", std::monostate{}}};
  return call;
}

TEST(CallTrace, ReadsWhatItWrites) {
  const TracedCall call = sample_call();
  const TracedCall back = parse_call(format_call(call));
  EXPECT_EQ(back.op, call.op);
  EXPECT_EQ(back.device, call.device);
  EXPECT_EQ(back.attributes, call.attributes);
  ASSERT_EQ(back.inputs.size(), call.inputs.size());
  for (std::size_t i : {0u, 1u, 3u}) {
    ASSERT_TRUE(back.inputs[i].has_value());
    EXPECT_EQ(back.inputs[i]->dtype, call.inputs[i]->dtype);
    EXPECT_EQ(back.inputs[i]->shape, call.inputs[i]->shape);
    EXPECT_EQ(back.inputs[i]->strides, call.inputs[i]->strides);
    EXPECT_EQ(back.inputs[i]->device, call.inputs[i]->device);
  }
  EXPECT_FALSE(back.inputs[2].has_value());
}

TEST(CallTrace, DistinctCallsOnceInOrder) {
  const TemporaryDirectory directory;
  const std::string path = (directory.path() / "trace.jsonl").string();
  ASSERT_EQ(setenv("KILN_TRACE", path.c_str(), 1), 0);
  const OpSpec& add = Registry::process().get("add");
  const TensorView x = dense_view(nullptr, DType::f32, {7}), y = dense_view(nullptr, DType::f32, {7, 1});
  trace_call(validated_call(add, std::vector<TensorView>{x, y}));
  trace_call(validated_call(add, std::vector<TensorView>{x, x}, {{"alpha", 2.0}}));
  trace_call(validated_call(add, std::vector<TensorView>{x, y}));
  unsetenv("KILN_TRACE");
  trace_call(validated_call(add, std::vector<TensorView>{y, y}));
  const std::vector<TracedCall> calls = read_trace(path);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].inputs[1]->shape, (Dims{7, 1}));
  EXPECT_EQ(calls[1].attributes, (Attributes{{"alpha", 2.0}}));
}

TEST(CallTrace, ANewSeedIsNotAnotherCall) {
  const TemporaryDirectory directory;
  const std::string path = (directory.path() / "trace.jsonl").string();
  ASSERT_EQ(setenv("KILN_TRACE", path.c_str(), 1), 0);
  const OpSpec& dropout = Registry::process().get("dropout");
  const TensorView x = dense_view(nullptr, DType::f32, {5});
  for (const std::int64_t seed : {1, 2})
    for (const double p : {0.5, 0.25})
      trace_call(validated_call(dropout, std::vector<TensorView>{x}, {{"seed", seed}, {"p", p}}));
  unsetenv("KILN_TRACE");
  const std::vector<TracedCall> calls = read_trace(path);
  ASSERT_EQ(calls.size(), 2u);
  for (const TracedCall& call : calls) EXPECT_EQ(call.attributes.get_int("seed"), 1);
}

TEST(CallTrace, AFileThatCannotBeWrittenIsAnError) {
  const TensorView x = dense_view(nullptr, DType::f32, {11});
  const auto trace = [&] { trace_call(validated_call(Registry::process().get("abs"), std::vector<TensorView>{x})); };
  for (const auto& [path, reason] : std::vector<std::pair<std::string, std::string>>{
           {"/dev/full", "No space"}, {"/no/such/folder/x", "No such file"}})
    for (int repeat = 0; repeat < 2; ++repeat) {  // and not only the first time
      const ScopedVariable variable("KILN_TRACE", path);
      EXPECT_THAT(usage_message(trace), Says("KILN_TRACE", path, reason));
    }
  const TemporaryDirectory directory;
  ASSERT_EQ(setenv("KILN_TRACE", directory.file("trace").c_str(), 1), 0);
  trace();  // what could not be written is not taken for written
  unsetenv("KILN_TRACE");
  EXPECT_EQ(read_trace(directory.file("trace")).size(), 1u);
}

TEST(CallTrace, HalfALineIsTakenBack) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("trace");
  const ScopedVariable variable("KILN_TRACE", path);
  const auto trace = [](std::int64_t extent) {
    const TensorView x = dense_view(nullptr, DType::f32, {extent});
    trace_call(validated_call(Registry::process().get("ceil"), std::vector<TensorView>{x}));
  };
  trace(3);
  // A file that may not become larger stands for a disk that is full: the first bytes of a line are written there too.
  auto* const former_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
  struct rlimit small = former;
  small.rlim_cur = std::filesystem::file_size(path) + 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT(usage_message([&] { trace(5); }), Says("KILN_TRACE", "File too large"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
  std::signal(SIGXFSZ, former_handler);
  EXPECT_EQ(read_trace(path).size(), 1U);
  trace(7);
  EXPECT_EQ(read_trace(path).size(), 2U);
}

TEST(CallTrace, HoldsIntegersOfAll64Bits) {
  TracedCall call{"normal", DeviceType::cpu, {}, {}};
  for (const std::uint64_t seed : {std::uint64_t{7}, std::numeric_limits<std::uint64_t>::max()}) {
    call.attributes.set("seed", seed);
    EXPECT_EQ(parse_call(format_call(call)).attributes, call.attributes);
  }
}

TEST(CallTrace, DamagedLinesAreNamed) {
  const TemporaryDirectory directory;
  const std::string path = (directory.path() / "trace.jsonl").string();
  const std::string good = format_call(sample_call());
  const auto message = [&](const std::string& line) -> std::string {
    std::ofstream(path) << good << "\n\n" << line << "\n";
    return usage_message([&] { read_trace(path); });
  };
  EXPECT_THAT(message("{\"op\": \"add\""), Says("line 3", "no call"));
  EXPECT_THAT(message(R"({"op": "add", "device": "tpu", "inputs": [], "attributes": {}})"), HasSubstr("tpu"));
  EXPECT_THAT(message(R"({"op": "add", "device": "cpu", "inputs": [{"dtype": "f3", "shape": []}], "attributes": {}})"),
              HasSubstr("f3"));
  EXPECT_THAT(
      message(R"({"op": "add", "device": "cpu", "inputs": [{"dtype": "f32", "shape": [-1]}], "attributes": {}})"),
      HasSubstr("negative"));
  for (const char* number : {"6518446744073709551615", "1e300", "18446744073709551615", "1.5", "\"4\""}) {
    const std::string input = R"({"dtype": "f32", "shape": [)" + std::string(number) + "]}";
    EXPECT_THAT(message(R"({"op": "add", "device": "cpu", "inputs": [)" + input + R"(], "attributes": {}})"),
                HasSubstr("integer of 64 bits"));
    EXPECT_THAT(message(R"({"op": "sum", "device": "cpu", "inputs": [], "attributes": {"dim": [)" +
                        std::string(number) + "]}}"),
                HasSubstr("integer of 64 bits"));
  }
  const std::string number = R"({"op": "sum", "device": "cpu", "inputs": [], "attributes": {"p": {"number": "half"}}})";
  EXPECT_THAT(message(number), Says("line 3", "'number' is 'half'", "expected inf, -inf or nan"));
  EXPECT_THAT(message(R"([1, 2])"), HasSubstr("line 3"));
  EXPECT_THAT(message(std::string(100000, '[')), HasSubstr("line 3"));
  EXPECT_THROW(read_trace("/no/such/file"), UsageError);
}

}  // namespace
}  // namespace kiln::test
