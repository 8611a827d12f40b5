// Bad calls: the class of the error, and that its message names the argument and the values.

#include <functional>
#include <limits>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "registry/tuning/tuning.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

using Kind = UsageError::Kind;

void expect_usage_error(const std::function<void()>& call, Kind kind, const ::testing::Matcher<std::string>& message) {
  EXPECT_THAT(usage_message(kind, call), message);
}

Tensor with_device(const Tensor& tensor, Device device) {
  TensorView view = tensor.view();
  view.device = device;
  return {view, tensor.owner()};
}

TEST(DispatchErrorsTest, UnknownOpNamesTheNearest) {
  const Tensor x = make_f32({1, 2});
  expect_usage_error([&] { dispatch_gpu_op("sigmod", {x}); }, Kind::value, Says("'sigmod'", "'sigmoid'"));
  expect_usage_error([&] { dispatch_gpu_op("", {x}); }, Kind::value, HasSubstr("unknown op ''"));
  expect_usage_error([&] { resolve("maximun", {x.view(), x.view()}); }, Kind::value, HasSubstr("'maximum'"));
}

TEST(DispatchErrorsTest, UnknownOpIsAnErrorOfItsOwnThatKeepsTheName) {
  const Tensor x = make_f32({1, 2});
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [] { Registry::process().get("sigmod"); },
           [&] { dispatch_gpu_op("sigmod", {x}); },
           [] { dispatch_gpu_op("sigmod", {}); },
           [&] { resolve("sigmod", {x.view()}); },
           [&] { tune_op("sigmod", std::vector<TensorView>{x}); },
       })
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const UnknownOpError& error) {
      EXPECT_EQ(error.op(), "sigmod");
      EXPECT_EQ(error.kind(), Kind::value);
    }
}

TEST(DispatchErrorsTest, ArityNamesTheInputs) {
  const Tensor x = make_f32({1, 2});
  const OpSpec& spec = Registry::process().get("where");
  expect_usage_error([&] { dispatch_gpu_op("where", {x}); }, Kind::value,
                     Says("'where'", spec.inputs[0].name, spec.inputs[2].name, "got 1"));
  expect_usage_error([&] { dispatch_gpu_op("neg", {x, x}); }, Kind::value, Says("'neg'", "takes 1 input", "got 2"));
  // No tensor says on which device: what is wrong with the call is still the op's name or its arity.
  expect_usage_error([&] { dispatch_gpu_op("neg", {}); }, Kind::value, Says("'neg'", "takes 1 input", "got 0"));
  expect_usage_error([&] { dispatch_gpu_op("sigmod", {}); }, Kind::value, HasSubstr("'sigmoid'"));
  const std::vector<Tensor> many(30, x);
  expect_usage_error([&] { dispatch_gpu_op("add", many); }, Kind::value, Says("'add'", "30"));
}

TEST(DispatchErrorsTest, MismatchedShapesNameBoth) {
  expect_usage_error([&] { dispatch_gpu_op("add", {make_f32({2, 3}, {1, 2, 3, 4, 5, 6}), make_f32({1, 2})}); },
                     Kind::value, Says("(2, 3)", "(2)"));
}

TEST(DispatchErrorsTest, DtypeWithoutAKernelNamesTheSupportedOnes) {
  expect_usage_error([&] { dispatch_gpu_op("bitwise_and", {make_f32({1}), make_f32({2})}); }, Kind::not_implemented,
                     Says("'bitwise_and'", "f32", "i32"));
}

TEST(DispatchErrorsTest, DeviceMixNamesBothTensors) {
  const Tensor x = make_f32({1, 2});
  const OpSpec& spec = Registry::process().get("add");
  expect_usage_error([&] { dispatch_gpu_op("add", {x, with_device(x, Device::cuda(1))}); }, Kind::type,
                     Says("'" + spec.inputs[0].name + "' is on cpu", "'" + spec.inputs[1].name + "' is on cuda:1"));
  const Tensor outputs[] = {with_device(x, Device::cuda(0))};
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}, {}, {.outputs = outputs}); }, Kind::type,
                     Says("output", "is on cuda:0", "is on cpu"));
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}, {}, {.stream = Stream{Device::cuda(0), nullptr}}); }, Kind::type,
                     Says("stream", "cuda:0", "cpu"));
}

TEST(DispatchErrorsTest, AbsentDeviceNamesTheOnesThereAre) {
  const int absent = device_count(DeviceType::cuda) + 3;
  const Tensor x = with_device(make_f32({1, 2}), Device::cuda(absent));
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}); }, Kind::value, HasSubstr("cuda:" + std::to_string(absent)));
}

TEST(DispatchErrorsTest, NullPointerNamesTheTensor) {
  const Tensor null({nullptr, DType::f32, Device::cpu(), {4}, {1}}, nullptr), x = make_f32({1, 2, 3, 4});
  const OpSpec& spec = Registry::process().get("add");
  for (int attempt = 0; attempt < 2; ++attempt) {  // cold, and with the plan cached
    expect_usage_error([&] { dispatch_gpu_op("add", {x, null}); }, Kind::value,
                       Says("null", "'" + spec.inputs[1].name + "'", "(4)"));
    const Tensor outputs[] = {null};
    expect_usage_error([&] { dispatch_gpu_op("add", {x, x}, {}, {.outputs = outputs}); }, Kind::value,
                       Says("null", "output"));
    if (compiler_problem(DeviceType::cpu).empty()) dispatch_gpu_op("add", {x, x});
  }
}

TEST(DispatchErrorsTest, PointersBetweenElementsNameTheTensor) {
  const Tensor x = make_f32({1, 2, 3, 4, 5}), y = make_f32({1, 2, 3, 4});
  const auto shifted = [&](std::ptrdiff_t bytes) {
    TensorView view = view_of(x, {4}, {1});
    view.data = static_cast<std::byte*>(view.data) + bytes;
    return Tensor(view, x.owner());
  };
  for (int attempt = 0; attempt < 2; ++attempt) {  // cold, and with the plan cached
    expect_usage_error([&] { dispatch_gpu_op("add", {y, shifted(2)}); }, Kind::value,
                       Says("input 'y'", "2 bytes past a multiple of 4"));
    const Tensor outputs[] = {shifted(1)};
    expect_usage_error([&] { dispatch_gpu_op("add", {y, y}, {}, {.outputs = outputs}); }, Kind::value,
                       Says("output 'out'", "1 byte past a multiple of 4"));
    if (compiler_problem(DeviceType::cpu).empty()) dispatch_gpu_op("add", {y, shifted(4)});
  }
}

TEST(DispatchErrorsTest, MalformedViewsAreNamed) {
  const Tensor x = make_f32({1, 2, 3, 4});
  expect_usage_error([&] { dispatch_gpu_op("neg", {view_of(x, {-2, 2}, {2, 1})}); }, Kind::value,
                     Says("negative", "-2", "dimension 0"));
  expect_usage_error([&] { dispatch_gpu_op("neg", {view_of(x, {2, 2}, {1})}); }, Kind::value,
                     Says("2 dimensions", "1 strides"));
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_THROW(dispatch_gpu_op("neg", {view_of(x, {kHuge, kHuge}, {kHuge, 1})}), UsageError);
  EXPECT_THROW(dispatch_gpu_op("neg", {view_of(x, {4}, {std::numeric_limits<std::int64_t>::max()})}), UsageError);
  EXPECT_THROW(dispatch_gpu_op("neg", {view_of(x, {4}, {std::numeric_limits<std::int64_t>::min()})}), UsageError);
}

TEST(DispatchErrorsTest, OverlappingOutputsAreRefusedBeforeAnythingRuns) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const Tensor x = make_f32(values);
  const Tensor first = view_of(x, {4}, {1});
  for (const auto& [shape, strides, offset, where] : {std::tuple{Dims{4}, Dims{1}, 1, "4 bytes after it"},
                                                      {Dims{4}, Dims{2}, 0, "at the same address"},
                                                      {Dims{4}, Dims{-1}, 3, "12 bytes after it"},
                                                      {Dims{4}, Dims{1}, 3, "12 bytes after it"}}) {
    const Tensor outputs[] = {view_of(x, shape, strides, offset)};
    for (int attempt = 0; attempt < 2; ++attempt) {  // cold, and with the plan cached
      expect_usage_error([&] { dispatch_gpu_op("neg", {first}, {}, {.outputs = outputs}); }, Kind::value,
                         Says("overlaps", "'neg'", "output", "strides " + to_string(strides), where));
      EXPECT_EQ(read_f32(x), values);
      if (compiler_problem(DeviceType::cpu).empty()) {
        const Tensor elsewhere[] = {view_of(make_f32(values), shape, strides, offset)};
        dispatch_gpu_op("neg", {first}, {}, {.outputs = elsewhere});
      }
    }
  }
}

TEST(DispatchErrorsTest, WrongOutputsNameWhatWasExpected) {
  const Tensor x = make_f32({2, 2}, {1, 2, 3, 4});
  const auto call = [&](const Tensor& output) {
    return [&x, output] {
      const Tensor outputs[] = {output};
      dispatch_gpu_op("neg", {x}, {}, {.outputs = outputs});
    };
  };
  expect_usage_error(call(empty({2, 2}, DType::f64, Device::cpu())), Kind::type, Says("f32", "f64", "output"));
  expect_usage_error(call(empty({4}, DType::f32, Device::cpu())), Kind::value, Says("(2, 2)", "(4)", "output"));
  expect_usage_error(call(view_of(empty({2}, DType::f32, Device::cpu()), {2, 2}, {0, 1})), Kind::value,
                     Says("output", "share memory"));
  const Tensor two[] = {x, x};
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}, {}, {.outputs = two}); }, Kind::value,
                     Says("1 output", "2 were given"));
}

TEST(DispatchErrorsTest, AttributesAreCheckedByNameAndType) {
  const Tensor x = make_f32({1, 2});
  expect_usage_error([&] { dispatch_gpu_op("leaky_relu", {x}, {{"negative_slop", 0.1}}); }, Kind::value,
                     Says("'negative_slop'", "'negative_slope'", "'leaky_relu'"));
  expect_usage_error([&] { dispatch_gpu_op("leaky_relu", {x}, {{"negative_slope", std::string("steep")}}); },
                     Kind::type, Says("'negative_slope'", "number", "steep"));
  expect_usage_error([&] { dispatch_gpu_op("cast", {x}); }, Kind::value, Says("'cast'", "'dtype'"));
  expect_usage_error([&] { dispatch_gpu_op("relu", {x}, {{"alpha", 1.0}}); }, Kind::value, Says("'relu'", "'alpha'"));
}

TEST(DispatchErrorsTest, ConfigsOutsideTheSpaceAreRefused) {
  const Tensor x = make_f32({1, 2});
  const Config odd{{"BLOCK_SIZE", 100}}, unknown{{"BLOCK_SIZE", 64}, {"BLOCKS", 2}};
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}, {}, {.config = &odd}); }, Kind::value,
                     Says("BLOCK_SIZE", "100"));
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}, {}, {.config = &unknown}); }, Kind::value, HasSubstr("BLOCKS"));
}

TEST(DispatchErrorsTest, ResolvedOpsRefuseOtherTensors) {
  if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
  const Tensor x = make_f32({1, 2, 3, 4}), out = make_f32({0, 0, 0, 0});
  const ResolvedOp neg = resolve("neg", {x.view()});
  const Stream stream = Stream::default_of(Device::cpu());
  expect_usage_error([&] { neg({make_f32({1, 2})}, {out}, stream); }, Kind::value,
                     Says("resolved for", "input", "(4)", "(2)"));
  expect_usage_error([&] { neg({x}, {view_of(out, {4}, {-1}, 3)}, stream); }, Kind::value,
                     Says("resolved for", "output"));
  expect_usage_error([&] { neg({x, x}, {out}, stream); }, Kind::value, Says("1 inputs", "got 2"));
  expect_usage_error([&] { neg({x}, {out}, Stream{Device::cuda(0), nullptr}); }, Kind::type, HasSubstr("cuda:0"));
  const Tensor null({nullptr, DType::f32, Device::cpu(), {4}, {1}}, nullptr);
  expect_usage_error([&] { neg({x}, {null}, stream); }, Kind::value, HasSubstr("null"));
  EXPECT_EQ(read_f32(out), std::vector<float>(4, 0));
}

TEST(DispatchErrorsTest, AnAbsentCompilerSaysWhatToInstall) {
  const std::string problem = compiler_problem(DeviceType::cpu);
  if (problem.empty()) GTEST_SKIP() << "the CPU compiler is there";
  EXPECT_THAT(error_message<DeviceError>([] { dispatch_gpu_op("neg", {make_f32({1, 2})}); }), HasSubstr(problem));
}

}  // namespace
}  // namespace kiln::test
