#include "core/tensor_map.hpp"
#include "tests/support/matchers.hpp"

#include <functional>

namespace kiln::test {
namespace {

/// Boxes of 64 x 128 of a bf16 matrix of 1000 rows of 4096, the largest that swizzle b128 takes.
TensorMap matrix() {
  TensorMap map;
  map.dtype = DType::bf16;
  map.rank = 2;
  map.extents = {4096, 1000};
  map.strides_bytes = {8192};
  map.box = {64, 128};
  map.swizzle = TensorMapSwizzle::b128;
  return map;
}

TEST(TensorMap, TakesWhatTheHardwareTakes) {
  EXPECT_EQ(tensor_map_problem(matrix()), "");
  TensorMap largest;
  largest.rank = 5;
  largest.extents.fill((std::int64_t{1} << 32) - 1);
  largest.strides_bytes.fill((std::int64_t{1} << 40) - 16);
  largest.box.fill(256);
  largest.offset_bytes = -32;
  EXPECT_EQ(tensor_map_problem(largest), "");
  TensorMap line;
  line.dtype = DType::f64;
  line.rank = 1;
  line.extents = {1};
  line.box = {256};
  EXPECT_EQ(tensor_map_problem(line), "");
  TensorMap rounded = matrix();
  rounded.dtype = DType::f32;
  rounded.box[0] = 32;
  rounded.rounds_to_tf32 = true;
  EXPECT_EQ(tensor_map_problem(rounded), "");
}

TEST(TensorMap, NamesTheLimitThatIsBroken) {
  struct Case {
    std::function<void(TensorMap&)> change;
    ::testing::Matcher<std::string> message;
  };
  const Case cases[] = {
      {[](TensorMap& map) { map.rank = 0; }, HasSubstr("rank is 0")},
      {[](TensorMap& map) { map.rank = 6; }, HasSubstr("rank is 6; it is 1 to 5")},
      {[](TensorMap& map) { map.offset_bytes = 8; }, HasSubstr("offset_bytes is 8")},
      {[](TensorMap& map) { map.extents[0] = 0; }, HasSubstr("extents[0] is 0")},
      {[](TensorMap& map) { map.extents[1] = std::int64_t{1} << 32; }, HasSubstr("extents[1] is 4294967296")},
      {[](TensorMap& map) { map.strides_bytes[0] = 8190; }, Says("strides_bytes[0]", "8190", "multiple of 16")},
      {[](TensorMap& map) { map.strides_bytes[0] = -8192; }, HasSubstr("-8192")},
      {[](TensorMap& map) { map.strides_bytes[0] = std::int64_t{1} << 40; }, HasSubstr("strides_bytes[0]")},
      {[](TensorMap& map) { map.box[1] = 0; }, HasSubstr("box[1] is 0")},
      {[](TensorMap& map) { map.box[1] = 257; }, HasSubstr("box[1] is 257; it is 1 to 256")},
      {[](TensorMap& map) { map.box[0] = 12; }, HasSubstr("24 bytes in all, which is no multiple of 16")},
      {[](TensorMap& map) { map.box[0] = 128; }, Says("256 bytes in all", "swizzle b128")},
      {[](TensorMap& map) { map.swizzle = TensorMapSwizzle::b64; }, HasSubstr("swizzle b64 takes at most 64")},
      {[](TensorMap& map) { map.swizzle = TensorMapSwizzle::b32; }, HasSubstr("swizzle b32 takes at most 32")},
      {[](TensorMap& map) { map.rounds_to_tf32 = true; }, Says("bf16", "f32")},
  };
  for (const Case& broken : cases) {
    TensorMap map = matrix();
    broken.change(map);
    EXPECT_THAT(tensor_map_problem(map), broken.message);
  }
}

TEST(TensorMap, StartsAtMultiplesOf16Bytes) {
  alignas(16) const std::byte memory[32] = {};
  EXPECT_TRUE(takes_tensor_map(nullptr));
  EXPECT_TRUE(takes_tensor_map(memory));
  EXPECT_TRUE(takes_tensor_map(memory + 16));
  for (const int offset : {1, 2, 4, 8, 15, 17}) EXPECT_FALSE(takes_tensor_map(memory + offset)) << offset;
}

}  // namespace
}  // namespace kiln::test
