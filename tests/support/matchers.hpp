#pragma once

#include <gmock/gmock.h>

#include <string>

/// GoogleMock's matchers by their names alone, and one of our own.
namespace kiln::test {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// A text in which all of `parts` occur.
template <typename... Parts>
auto Says(const Parts&... parts) {
  return AllOf(HasSubstr(std::string(parts))...);
}

}  // namespace kiln::test
