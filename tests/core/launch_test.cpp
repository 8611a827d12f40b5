#include "core/launch.hpp"

#include <gtest/gtest.h>

#include "core/errors.hpp"

namespace kiln {
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
}  // namespace kiln
