#include "core/nearest_name.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

const std::vector<std::string> kOps = {"add",     "add_relu", "atan2", "exp",     "exp2", "leaky_relu",
                                       "maximum", "minimum",  "relu",  "softmax", "sub"};

TEST(NearestNames, FindsSlips) {
  EXPECT_THAT(nearest_names("sofmtax", kOps), ElementsAre("softmax"));
  EXPECT_THAT(nearest_names("maximun", kOps), Contains("maximum"));
  EXPECT_THAT(nearest_names("ad", kOps), ElementsAre("add"));
  EXPECT_THAT(nearest_names("dad", kOps), ElementsAre("add"));
  EXPECT_THAT(nearest_names("SoftMax", kOps), ElementsAre("softmax"));
}

TEST(NearestNames, FindsPartsBestFirst) {
  EXPECT_THAT(nearest_names("relu", kOps), ElementsAre("relu", "add_relu", "leaky_relu"));
  EXPECT_THAT(nearest_names("soft", kOps), ElementsAre("softmax"));
  EXPECT_THAT(nearest_names("relu", kOps, 1), ElementsAre("relu"));
}

TEST(NearestNames, IsSilentWhenNothingIsClose) {
  EXPECT_THAT(nearest_names("convolution", kOps), IsEmpty());
  EXPECT_THAT(nearest_names("xyz", kOps), IsEmpty());
  EXPECT_THAT(nearest_names("", kOps), IsEmpty());
  EXPECT_THAT(nearest_names("add", {}), IsEmpty());
}

TEST(DidYouMean, ReadsAsASentence) {
  EXPECT_EQ(did_you_mean("sofmax", kOps), "; did you mean 'softmax'?");
  EXPECT_EQ(did_you_mean("rel", kOps), "; did you mean 'relu', 'add_relu' or 'leaky_relu'?");
  EXPECT_EQ(did_you_mean("convolution", kOps), "");
}

}  // namespace
}  // namespace kiln::test
