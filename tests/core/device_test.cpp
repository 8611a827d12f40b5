#include "core/device.hpp"

#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TEST(Device, SpellingsParseBack) {
  for (Device device : {Device::cpu(), Device::cuda(), Device::cuda(1), Device::cuda(15)})
    EXPECT_EQ(parse_device(to_string(device)), device);
  EXPECT_EQ(to_string(Device::cuda(3)), "cuda:3");
  EXPECT_EQ(parse_device("cuda"), Device::cuda(0));
}

TEST(Device, RefusesWhatIsNotADevice) {
  for (const char* text : {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:99999999999"})
    EXPECT_THAT(value_error([&] { parse_device(text); }), Says(std::string("'") + text + "'", "cuda:N"));
}

}  // namespace
}  // namespace kiln::test
