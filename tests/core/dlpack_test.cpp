#include "core/dlpack.hpp"

#include <dlpack/dlpack.h>

#include <cstring>
#include <functional>
#include <memory>

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

/// A producer: a 2x3 f32 tensor that counts how often it is deleted.
struct Producer {
  Producer() {
    managed.dl_tensor = {.data = data,
                         .device = {kDLCPU, 0},
                         .ndim = 2,
                         .dtype = {kDLFloat, 32, 1},
                         .shape = shape,
                         .strides = nullptr,
                         .byte_offset = 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Producer*>(self->manager_ctx)->deletions; };
  }
  float data[6] = {0, 1, 2, 3, 4, 5};
  std::int64_t shape[2] = {2, 3};
  std::int64_t strides[2] = {3, 1};
  DLManagedTensor managed{};
  int deletions = 0;
};

TEST(FromDlpack, TakesOwnershipAndReleasesOnce) {
  Producer producer;
  {
    Tensor tensor = from_dlpack(&producer.managed);
    Tensor copy = tensor;
    tensor = Tensor();
    EXPECT_EQ(producer.deletions, 0);
    EXPECT_EQ(copy.data(), producer.data);
    EXPECT_EQ(copy.dtype(), DType::f32);
    EXPECT_EQ(copy.device(), Device::cpu());
    EXPECT_EQ(copy.shape(), (Dims{2, 3}));
    EXPECT_EQ(copy.strides(), (Dims{3, 1}));
  }
  EXPECT_EQ(producer.deletions, 1);
}

TEST(FromDlpack, KeepsStridesAndAppliesTheOffset) {
  Producer producer;
  producer.managed.dl_tensor.strides = producer.strides;
  producer.strides[0] = -3;
  producer.strides[1] = 0;
  producer.managed.dl_tensor.byte_offset = 3 * sizeof(float);
  const Tensor tensor = from_dlpack(&producer.managed);
  EXPECT_EQ(tensor.strides(), (Dims{-3, 0}));
  EXPECT_EQ(tensor.data_as<float>()[0], 3.0f);
}

TEST(FromDlpack, AcceptsScalarsEmptyTensorsAndNoDeleter) {
  Producer producer;
  producer.managed.deleter = nullptr;
  producer.managed.dl_tensor.ndim = 0;
  producer.managed.dl_tensor.shape = nullptr;
  EXPECT_EQ(from_dlpack(&producer.managed).numel(), 1);
  Producer nothing;
  nothing.shape[0] = 0;
  nothing.managed.dl_tensor.data = nullptr;
  nothing.managed.dl_tensor.byte_offset = 64;
  const Tensor empty = from_dlpack(&nothing.managed);
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_EQ(empty.data(), nullptr);
}

TEST(FromDlpack, MapsDevices) {
  const std::pair<DLDevice, Device> devices[] = {{{kDLCPU, 0}, Device::cpu()},
                                                 {{kDLCUDA, 3}, Device::cuda(3)},
                                                 {{kDLCUDAHost, 1}, Device::cpu()},
                                                 {{kDLCUDAManaged, 2}, Device::cuda(2)}};
  for (const auto& [theirs, ours] : devices) {
    Producer producer;
    producer.managed.dl_tensor.device = theirs;
    EXPECT_EQ(from_dlpack(&producer.managed).device(), ours);
  }
}

TEST(FromDlpack, ReadsTheTypeCodesOfNewerProducers) {
  const std::pair<DLDataType, DType> types[] = {{{kDLInt, 8, 1}, DType::i8},       {{kDLInt, 64, 1}, DType::i64},
                                                {{kDLUInt, 16, 1}, DType::u16},    {{kDLFloat, 16, 1}, DType::f16},
                                                {{kDLBfloat, 16, 1}, DType::bf16}, {{6, 8, 1}, DType::bool_},
                                                {{10, 8, 1}, DType::fp8e4m3},      {{12, 8, 1}, DType::fp8e5m2}};
  for (const auto& [theirs, ours] : types) {
    Producer producer;
    producer.managed.dl_tensor.dtype = theirs;
    EXPECT_EQ(from_dlpack(&producer.managed).dtype(), ours);
  }
}

TEST(FromDlpack, RefusesAndLeavesOwnershipWithTheCaller) {
  struct Case {
    std::function<void(Producer&)> spoil;
    UsageError::Kind kind;
    const char* message;
  };
  const auto set_device = [](Producer& producer, std::int32_t type) {
    std::memcpy(&producer.managed.dl_tensor.device.device_type, &type, sizeof(type));
  };
  const Case cases[] = {
      {[](Producer& p) { p.managed.dl_tensor.dtype.lanes = 4; }, UsageError::Kind::type, "4 lanes"},
      {[](Producer& p) { p.managed.dl_tensor.dtype = {kDLComplex, 64, 1}; }, UsageError::Kind::type,
       "type code 5 with 64"},
      {[](Producer& p) { p.managed.dl_tensor.dtype.bits = 128; }, UsageError::Kind::type, "128 bits"},
      {[&](Producer& p) { set_device(p, kDLROCM); }, UsageError::Kind::type, "type 10"},
      {[&](Producer& p) { set_device(p, 17); }, UsageError::Kind::type, "type 17"},
      {[](Producer& p) { p.managed.dl_tensor.device = {kDLCUDA, -1}; }, UsageError::Kind::type, "device -1"},
      {[](Producer& p) { p.managed.dl_tensor.ndim = 13; }, UsageError::Kind::value, "13 dimensions"},
      {[](Producer& p) { p.managed.dl_tensor.ndim = -1; }, UsageError::Kind::value, "-1 dimensions"},
      {[](Producer& p) { p.managed.dl_tensor.shape = nullptr; }, UsageError::Kind::value, "no shape"},
      {[](Producer& p) { p.shape[1] = -3; }, UsageError::Kind::value, "negative extent -3"},
      {[](Producer& p) { p.shape[0] = p.shape[1] = std::int64_t{1} << 62; }, UsageError::Kind::value, "more elements"},
  };
  for (const Case& spoiled : cases) {
    Producer producer;
    spoiled.spoil(producer);
    EXPECT_THAT(usage_message(spoiled.kind, [&] { from_dlpack(&producer.managed); }), HasSubstr(spoiled.message));
    EXPECT_EQ(producer.deletions, 0);
  }
  EXPECT_THROW(from_dlpack(nullptr), UsageError);
}

TEST(ToDlpack, KeepsTheTensorAliveUntilDeleted) {
  auto memory = std::make_shared<float[]>(12);
  std::weak_ptr<float[]> watch = memory;
  DLManagedTensor* managed = nullptr;
  {
    const TensorView view{memory.get() + 2, DType::f32, Device::cuda(1), {3, 2}, {-1, 4}};
    managed = to_dlpack(Tensor(view, memory));
    EXPECT_EQ(managed->dl_tensor.data, memory.get() + 2);
  }
  memory.reset();
  ASSERT_FALSE(watch.expired());
  const DLTensor& tensor = managed->dl_tensor;
  EXPECT_EQ(tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(tensor.device.device_id, 1);
  ASSERT_EQ(tensor.ndim, 2);
  EXPECT_EQ(tensor.shape[0], 3);
  EXPECT_EQ(tensor.shape[1], 2);
  EXPECT_EQ(tensor.strides[0], -1);
  EXPECT_EQ(tensor.strides[1], 4);
  EXPECT_EQ(tensor.byte_offset, 0u);
  managed->deleter(managed);
  EXPECT_TRUE(watch.expired());
}

TEST(ToDlpack, EveryDTypeComesBack) {
  for (DType dtype : kAllDTypes) {
    auto memory = std::make_shared<std::int64_t>(0);
    std::weak_ptr<std::int64_t> watch = memory;
    Tensor back = from_dlpack(to_dlpack(Tensor(dense_view(memory.get(), dtype, {1, 1}), std::move(memory))));
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.shape(), (Dims{1, 1}));
    EXPECT_FALSE(watch.expired());
    back = Tensor();
    EXPECT_TRUE(watch.expired());
  }
}

}  // namespace
}  // namespace kiln::test
