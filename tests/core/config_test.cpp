#include "core/config.hpp"

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TEST(Config, KeepsItsOrder) {
  Config config{{"BLOCK_SIZE", 1024}, {"num_warps", 4}};
  config.set("BLOCK_SIZE", 512);
  config.set("A", -1);
  EXPECT_EQ(to_string(config), "BLOCK_SIZE=512 num_warps=4 A=-1");
  EXPECT_EQ(config.at("num_warps"), 4);
  EXPECT_EQ(config.find("num_stages"), nullptr);
  EXPECT_THROW(config.at("num_stages"), InternalError);
  EXPECT_EQ(to_string(Config{}), "");
}

TEST(ParseConfig, ReadsWhatIsWritten) {
  const Config config{{"BLOCK_SIZE", 1024}, {"num_warps", 4}, {"x", -3}};
  EXPECT_EQ(parse_config(to_string(config)), config);
  EXPECT_EQ(parse_config("BLOCK_SIZE=1024,num_warps=4,x=-3"), config);
  EXPECT_EQ(parse_config("  BLOCK_SIZE=1024 , num_warps=4\tx=-3, "), config);
  EXPECT_EQ(parse_config(""), Config{});
}

TEST(ParseConfig, SaysWhatIsWrong) {
  EXPECT_THAT(value_error([] { parse_config("A=1 BLOCK"); }), HasSubstr("'BLOCK' has no '='"));
  EXPECT_THAT(value_error([] { parse_config("=4"); }), HasSubstr("does not start with a name"));
  EXPECT_THAT(value_error([] { parse_config("4A=4"); }), HasSubstr("does not start with a name"));
  EXPECT_THAT(value_error([] { parse_config("A=four"); }), HasSubstr("no integer"));
  EXPECT_THAT(value_error([] { parse_config("A="); }), HasSubstr("no integer"));
  EXPECT_THAT(value_error([] { parse_config("A=1.5"); }), HasSubstr("no integer"));
  EXPECT_THAT(value_error([] { parse_config("A=99999999999999999999"); }), HasSubstr("64-bit"));
  EXPECT_THAT(value_error([] { parse_config("A=1 A=2"); }), HasSubstr("'A' is given twice"));
}

ConfigSpace space() {
  return ConfigSpace({{"BLOCK_SIZE", {128, 64}}, {"num_warps", {2, 4}}},
                     {{"BLOCK_SIZE >= 32 * num_warps",
                       [](const Config& config) { return config.at("BLOCK_SIZE") >= 32 * config.at("num_warps"); }}});
}

TEST(ConfigSpace, EnumeratesValidConfigsFirstTunableSlowest) {
  EXPECT_THAT(space().enumerate(),
              ElementsAre(Config{{"BLOCK_SIZE", 128}, {"num_warps", 2}}, Config{{"BLOCK_SIZE", 128}, {"num_warps", 4}},
                          Config{{"BLOCK_SIZE", 64}, {"num_warps", 2}}));
  for (const Config& config : space().enumerate()) EXPECT_NO_THROW(space().validate(config));
}

TEST(ConfigSpace, WithoutTunablesHoldsTheEmptyConfig) {
  EXPECT_THAT(ConfigSpace().enumerate(), ElementsAre(Config{}));
  EXPECT_NO_THROW(ConfigSpace().validate({}));
}

TEST(ConfigSpace, AcceptsAnyOrder) {
  EXPECT_NO_THROW(space().validate({{"num_warps", 4}, {"BLOCK_SIZE", 128}}));
}

TEST(ConfigSpace, SaysWhatIsWrong) {
  const auto refused = [](const Config& config) { return value_error([&] { space().validate(config); }); };
  EXPECT_THAT(refused({{"BLOCKSIZE", 64}, {"num_warps", 2}}),
              Says("no tunable 'BLOCKSIZE'", "did you mean 'BLOCK_SIZE'", "tunables: BLOCK_SIZE, num_warps"));
  EXPECT_THAT(refused({{"BLOCK_SIZE", 64}}), HasSubstr("lacks tunable 'num_warps': legal values are 2, 4"));
  EXPECT_THAT(refused({{"BLOCK_SIZE", 48}, {"num_warps", 2}}),
              HasSubstr("'BLOCK_SIZE' cannot be 48: legal values are 128, 64"));
  EXPECT_THAT(refused({{"BLOCK_SIZE", 64}, {"num_warps", 4}}),
              HasSubstr("'BLOCK_SIZE=64 num_warps=4' breaks the constraint BLOCK_SIZE >= 32 * num_warps"));
  EXPECT_THAT(refused({{"BLOCK_SIZE", 64}, {"num_warps", 2}, {"num_warps", 4}}), HasSubstr("given twice"));
  EXPECT_THAT(value_error([] { ConfigSpace().validate({{"A", 1}}); }), HasSubstr("this kernel has none"));
}

TEST(ConfigSpace, SignatureCoversTunablesAndConstraints) {
  EXPECT_EQ(space().signature(), space().signature());
  const ConfigSpace fewer_values({{"BLOCK_SIZE", {128}}, {"num_warps", {2, 4}}}, space().constraints());
  const ConfigSpace no_constraint(space().tunables(), {});
  EXPECT_NE(space().signature(), fewer_values.signature());
  EXPECT_NE(space().signature(), no_constraint.signature());
}

}  // namespace
}  // namespace kiln::test
