#include "core/launch.hpp"

#include <gtest/gtest.h>

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

template <typename T>
T read(const void* parameter) {
  T value;
  std::memcpy(&value, parameter, sizeof(T));
  return value;
}

TEST(ArgumentTemplate, BindsTensorsAndValues) {
  struct Strides {
    std::int64_t values[3];
  };
  ArgumentTemplate arguments;
  arguments.add_tensor(1);
  arguments.add_value(true);
  arguments.add_value(std::int64_t{1} << 40);
  arguments.add_tensor(0);
  arguments.add_value(2.5f);
  arguments.add_value(Strides{{7, 8, 9}});
  ASSERT_EQ(arguments.size(), 6);

  int first = 0, second = 0;
  void* tensor_data[] = {&first, &second};
  void* parameters[6] = {};
  arguments.bind(tensor_data, parameters);
  EXPECT_EQ(read<void*>(parameters[0]), &second);
  EXPECT_TRUE(read<bool>(parameters[1]));
  EXPECT_EQ(read<std::int64_t>(parameters[2]), std::int64_t{1} << 40);
  EXPECT_EQ(read<void*>(parameters[3]), &first);
  EXPECT_EQ(read<float>(parameters[4]), 2.5f);
  EXPECT_EQ(read<Strides>(parameters[5]).values[2], 9);
  for (int i : {2, 5}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parameters[i]) % alignof(std::int64_t), 0u);
}

TEST(ArgumentTemplate, WorkspacesComeAfterTheTensors) {
  ArgumentTemplate arguments;
  arguments.add_workspace(1);
  arguments.add_tensor(0);
  int tensor = 0, workspace = 0;
  void* data[kMaxArguments] = {&tensor};
  data[kMaxTensors + 1] = &workspace;
  void* parameters[2] = {};
  arguments.bind(data, parameters);
  EXPECT_EQ(read<void*>(parameters[0]), &workspace);
  EXPECT_EQ(read<void*>(parameters[1]), &tensor);
}

TensorMap line_of(int tensor_index) {
  TensorMap map;
  map.tensor_index = tensor_index;
  map.rank = 1;
  map.extents = {1000};
  map.box = {16};
  return map;
}

TEST(ArgumentTemplate, TensorMapsTakeTheirPlaceAmongTheParameters) {
  ArgumentTemplate arguments;
  arguments.add_value(std::int32_t{5});
  arguments.add_tensor_map(line_of(2));
  arguments.add_tensor(0);
  TensorMap over_workspace = line_of(0);
  over_workspace.workspace_index = 1;
  arguments.add_tensor_map(over_workspace);
  arguments.add_value(2.5f);
  ASSERT_EQ(arguments.size(), 5);
  ASSERT_EQ(arguments.tensor_maps().size(), 2u);
  EXPECT_EQ(arguments.tensor_maps()[0].parameter_index, 1);
  EXPECT_EQ(arguments.tensor_maps()[0].pointer_index, 2);
  EXPECT_EQ(arguments.tensor_maps()[0].map.extents[0], 1000);
  EXPECT_EQ(arguments.tensor_maps()[1].parameter_index, 3);
  EXPECT_EQ(arguments.tensor_maps()[1].pointer_index, kMaxTensors + 1);

  int tensor = 0;
  void* data[kMaxArguments] = {&tensor};
  void* parameters[5] = {};
  arguments.bind(data, parameters);
  EXPECT_EQ(read<std::int32_t>(parameters[0]), 5);
  EXPECT_EQ(read<void*>(parameters[2]), &tensor);
  EXPECT_EQ(read<float>(parameters[4]), 2.5f);
}

TEST(ArgumentTemplate, RefusesTensorMapsThatCannotBeEncoded) {
  ArgumentTemplate arguments;
  TensorMap bad = line_of(1);
  bad.box[0] = 8;
  EXPECT_THAT(error_message<InternalError>([&] { arguments.add_tensor_map(bad); }),
              HasSubstr("tensor 1 cannot be encoded: box[0]"));
  EXPECT_THROW(arguments.add_tensor_map(line_of(-1)), InternalError);
  EXPECT_THROW(arguments.add_tensor_map(line_of(kMaxTensors)), InternalError);
  bad = line_of(0);
  bad.workspace_index = kMaxWorkspaces;
  EXPECT_THROW(arguments.add_tensor_map(bad), InternalError);
  EXPECT_EQ(arguments.size(), 0);
  for (int i = 0; i < kMaxTensorMaps; ++i) arguments.add_tensor_map(line_of(0));
  EXPECT_THROW(arguments.add_tensor_map(line_of(0)), InternalError);
  EXPECT_EQ(arguments.size(), kMaxTensorMaps);
}

TEST(ArgumentTemplate, CopiesOwnTheirValues) {
  ArgumentTemplate copy;
  {
    ArgumentTemplate original;
    original.add_value(std::int32_t{42});
    copy = original;
  }
  void* parameter = nullptr;
  copy.bind(nullptr, &parameter);
  EXPECT_EQ(read<std::int32_t>(parameter), 42);
}

TEST(ArgumentTemplate, RefusesWhatItCannotHold) {
  ArgumentTemplate arguments;
  EXPECT_THROW(arguments.add_tensor(-1), InternalError);
  EXPECT_THROW(arguments.add_tensor(kMaxTensors), InternalError);
  EXPECT_THROW(arguments.add_workspace(-1), InternalError);
  EXPECT_THROW(arguments.add_workspace(kMaxWorkspaces), InternalError);
  struct alignas(64) Aligned {
    char bytes[64];
  };
  EXPECT_THROW(arguments.add_value(Aligned{}), InternalError);
  for (int i = 0; i < kMaxArguments; ++i) arguments.add_value(i);
  EXPECT_THROW(arguments.add_value(0), InternalError);
  EXPECT_THROW(arguments.add_tensor(0), InternalError);
  EXPECT_EQ(arguments.size(), kMaxArguments);
}

}  // namespace
}  // namespace kiln::test
