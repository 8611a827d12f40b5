#include "core/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/errors.hpp"

namespace kiln {
namespace {

TEST(Device, SpellingsParseBack) {
  for (Device device : {Device::cpu(), Device::cuda(), Device::cuda(1), Device::cuda(15)})
    EXPECT_EQ(parse_device(to_string(device)), device);
  EXPECT_EQ(to_string(Device::cuda(3)), "cuda:3");
  EXPECT_EQ(parse_device("cuda"), Device::cuda(0));
}

TEST(Device, RefusesWhatIsNotADevice) {
  for (const char* text : {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:99999999999"}) {
    try {
      parse_device(text);
      ADD_FAILURE() << "accepted '" << text << "'";
    } catch (const UsageError& error) {
      EXPECT_EQ(error.kind(), UsageError::Kind::value);
      EXPECT_THAT(error.what(), testing::HasSubstr(std::string("'") + text + "'"));
      EXPECT_THAT(error.what(), testing::HasSubstr("cuda:N"));
    }
  }
}

}  // namespace
}  // namespace kiln
