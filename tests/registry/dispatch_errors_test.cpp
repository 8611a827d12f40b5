// Bad calls: the class of the error, and that its message names the argument and the values.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/registry/device_tensors.hpp"

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = UsageError::Kind;
using testing::make_f32;
using testing::read_f32;
using testing::view_of;

void expect_usage_error(const std::function<void()>& call, Kind kind, const ::testing::Matcher<std::string>& message) {
  try {
    call();
    ADD_FAILURE() << "no error was thrown";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(std::string(error.what()), message);
  }
}

Tensor with_device(const Tensor& tensor, Device device) {
  TensorView view = tensor.view();
  view.device = device;
  return {view, tensor.owner()};
}

TEST(DispatchErrorsTest, UnknownOpNamesTheNearest) {
  const Tensor x = make_f32({1, 2});
  expect_usage_error([&] { dispatch_gpu_op("sigmod", {x}); }, Kind::value,
                     AllOf(HasSubstr("'sigmod'"), HasSubstr("'sigmoid'")));
  expect_usage_error([&] { dispatch_gpu_op("", {x}); }, Kind::value, HasSubstr("unknown op ''"));
  expect_usage_error([&] { resolve("maximun", {x.view(), x.view()}); }, Kind::value, HasSubstr("'maximum'"));
}

TEST(DispatchErrorsTest, ArityNamesTheInputs) {
  const Tensor x = make_f32({1, 2});
  const OpSpec& spec = Registry::process().get("where");
  expect_usage_error(
      [&] { dispatch_gpu_op("where", {x}); }, Kind::value,
      AllOf(HasSubstr("'where'"), HasSubstr(spec.inputs[0].name), HasSubstr(spec.inputs[2].name), HasSubstr("got 1")));
  expect_usage_error([&] { dispatch_gpu_op("neg", {x, x}); }, Kind::value,
                     AllOf(HasSubstr("'neg'"), HasSubstr("takes 1 input"), HasSubstr("got 2")));
  // No tensor says on which device: what is wrong with the call is still the op's name or its arity.
  expect_usage_error([&] { dispatch_gpu_op("neg", {}); }, Kind::value,
                     AllOf(HasSubstr("'neg'"), HasSubstr("takes 1 input"), HasSubstr("got 0")));
  expect_usage_error([&] { dispatch_gpu_op("sigmod", {}); }, Kind::value, HasSubstr("'sigmoid'"));
  const std::vector<Tensor> many(30, x);
  expect_usage_error([&] { dispatch_gpu_op("add", many); }, Kind::value, AllOf(HasSubstr("'add'"), HasSubstr("30")));
}

TEST(DispatchErrorsTest, MismatchedShapesNameBoth) {
  expect_usage_error([&] { dispatch_gpu_op("add", {make_f32({2, 3}, {1, 2, 3, 4, 5, 6}), make_f32({1, 2})}); },
                     Kind::value, AllOf(HasSubstr("(2, 3)"), HasSubstr("(2)")));
}

TEST(DispatchErrorsTest, DtypeWithoutAKernelNamesTheSupportedOnes) {
  expect_usage_error([&] { dispatch_gpu_op("bitwise_and", {make_f32({1}), make_f32({2})}); }, Kind::not_implemented,
                     AllOf(HasSubstr("'bitwise_and'"), HasSubstr("f32"), HasSubstr("i32")));
}

TEST(DispatchErrorsTest, DeviceMixNamesBothTensors) {
  const Tensor x = make_f32({1, 2});
  const OpSpec& spec = Registry::process().get("add");
  expect_usage_error([&] { dispatch_gpu_op("add", {x, with_device(x, Device::cuda(1))}); }, Kind::type,
                     AllOf(HasSubstr("'" + spec.inputs[0].name + "' is on cpu"),
                           HasSubstr("'" + spec.inputs[1].name + "' is on cuda:1")));
  const Tensor outputs[] = {with_device(x, Device::cuda(0))};
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}, {}, {.outputs = outputs}); }, Kind::type,
                     AllOf(HasSubstr("output"), HasSubstr("is on cuda:0"), HasSubstr("is on cpu")));
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}, {}, {.stream = Stream{Device::cuda(0), nullptr}}); }, Kind::type,
                     AllOf(HasSubstr("stream"), HasSubstr("cuda:0"), HasSubstr("cpu")));
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
                       AllOf(HasSubstr("null"), HasSubstr("'" + spec.inputs[1].name + "'"), HasSubstr("(4)")));
    const Tensor outputs[] = {null};
    expect_usage_error([&] { dispatch_gpu_op("add", {x, x}, {}, {.outputs = outputs}); }, Kind::value,
                       AllOf(HasSubstr("null"), HasSubstr("output")));
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
                       AllOf(HasSubstr("input 'y'"), HasSubstr("2 bytes past a multiple of 4")));
    const Tensor outputs[] = {shifted(1)};
    expect_usage_error([&] { dispatch_gpu_op("add", {y, y}, {}, {.outputs = outputs}); }, Kind::value,
                       AllOf(HasSubstr("output 'out'"), HasSubstr("1 byte past a multiple of 4")));
    if (compiler_problem(DeviceType::cpu).empty()) dispatch_gpu_op("add", {y, shifted(4)});
  }
}

TEST(DispatchErrorsTest, MalformedViewsAreNamed) {
  const Tensor x = make_f32({1, 2, 3, 4});
  expect_usage_error([&] { dispatch_gpu_op("neg", {view_of(x, {-2, 2}, {2, 1})}); }, Kind::value,
                     AllOf(HasSubstr("negative"), HasSubstr("-2"), HasSubstr("dimension 0")));
  expect_usage_error([&] { dispatch_gpu_op("neg", {view_of(x, {2, 2}, {1})}); }, Kind::value,
                     AllOf(HasSubstr("2 dimensions"), HasSubstr("1 strides")));
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
                         AllOf(HasSubstr("overlaps"), HasSubstr("'neg'"), HasSubstr("output"),
                               HasSubstr("strides " + to_string(strides)), HasSubstr(where)));
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
  expect_usage_error(call(empty({2, 2}, DType::f64, Device::cpu())), Kind::type,
                     AllOf(HasSubstr("f32"), HasSubstr("f64"), HasSubstr("output")));
  expect_usage_error(call(empty({4}, DType::f32, Device::cpu())), Kind::value,
                     AllOf(HasSubstr("(2, 2)"), HasSubstr("(4)"), HasSubstr("output")));
  expect_usage_error(call(view_of(empty({2}, DType::f32, Device::cpu()), {2, 2}, {0, 1})), Kind::value,
                     AllOf(HasSubstr("output"), HasSubstr("share memory")));
  const Tensor two[] = {x, x};
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}, {}, {.outputs = two}); }, Kind::value,
                     AllOf(HasSubstr("1 output"), HasSubstr("2 were given")));
}

TEST(DispatchErrorsTest, AttributesAreCheckedByNameAndType) {
  const Tensor x = make_f32({1, 2});
  expect_usage_error([&] { dispatch_gpu_op("leaky_relu", {x}, {{"negative_slop", 0.1}}); }, Kind::value,
                     AllOf(HasSubstr("'negative_slop'"), HasSubstr("'negative_slope'"), HasSubstr("'leaky_relu'")));
  expect_usage_error([&] { dispatch_gpu_op("leaky_relu", {x}, {{"negative_slope", std::string("steep")}}); },
                     Kind::type, AllOf(HasSubstr("'negative_slope'"), HasSubstr("number"), HasSubstr("steep")));
  expect_usage_error([&] { dispatch_gpu_op("cast", {x}); }, Kind::value,
                     AllOf(HasSubstr("'cast'"), HasSubstr("'dtype'")));
  expect_usage_error([&] { dispatch_gpu_op("relu", {x}, {{"alpha", 1.0}}); }, Kind::value,
                     AllOf(HasSubstr("'relu'"), HasSubstr("'alpha'")));
}

TEST(DispatchErrorsTest, ConfigsOutsideTheSpaceAreRefused) {
  const Tensor x = make_f32({1, 2});
  const Config odd{{"BLOCK_SIZE", 100}}, unknown{{"BLOCK_SIZE", 64}, {"BLOCKS", 2}};
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}, {}, {.config = &odd}); }, Kind::value,
                     AllOf(HasSubstr("BLOCK_SIZE"), HasSubstr("100")));
  expect_usage_error([&] { dispatch_gpu_op("neg", {x}, {}, {.config = &unknown}); }, Kind::value, HasSubstr("BLOCKS"));
}

TEST(DispatchErrorsTest, ResolvedOpsRefuseOtherTensors) {
  if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
  const Tensor x = make_f32({1, 2, 3, 4}), out = make_f32({0, 0, 0, 0});
  const ResolvedOp neg = resolve("neg", {x.view()});
  const Stream stream = Stream::default_of(Device::cpu());
  expect_usage_error([&] { neg({make_f32({1, 2})}, {out}, stream); }, Kind::value,
                     AllOf(HasSubstr("resolved for"), HasSubstr("input"), HasSubstr("(4)"), HasSubstr("(2)")));
  expect_usage_error([&] { neg({x}, {view_of(out, {4}, {-1}, 3)}, stream); }, Kind::value,
                     AllOf(HasSubstr("resolved for"), HasSubstr("output")));
  expect_usage_error([&] { neg({x, x}, {out}, stream); }, Kind::value,
                     AllOf(HasSubstr("1 inputs"), HasSubstr("got 2")));
  expect_usage_error([&] { neg({x}, {out}, Stream{Device::cuda(0), nullptr}); }, Kind::type, HasSubstr("cuda:0"));
  const Tensor null({nullptr, DType::f32, Device::cpu(), {4}, {1}}, nullptr);
  expect_usage_error([&] { neg({x}, {null}, stream); }, Kind::value, HasSubstr("null"));
  EXPECT_EQ(read_f32(out), std::vector<float>(4, 0));
}

TEST(DispatchErrorsTest, AnAbsentCompilerSaysWhatToInstall) {
  const std::string problem = compiler_problem(DeviceType::cpu);
  if (problem.empty()) GTEST_SKIP() << "the CPU compiler is there";
  try {
    dispatch_gpu_op("neg", {make_f32({1, 2})});
    ADD_FAILURE() << "no error was thrown";
  } catch (const DeviceError& error) {
    EXPECT_THAT(std::string(error.what()), HasSubstr(problem));
  }
}

}  // namespace
}  // namespace kiln
