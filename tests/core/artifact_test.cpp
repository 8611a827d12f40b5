#include "core/artifact.hpp"

#include <gtest/gtest.h>

#include <random>

#include "core/errors.hpp"

namespace kiln::test {
namespace {

Artifact sample() {
  Artifact artifact;
  artifact.kind = ArtifactKind::cubin;
  artifact.target = {DeviceType::cuda, "sm_90a", "+avx2"};
  artifact.entry = "_Z4mainv";
  artifact.name = std::string("add_kernel<float, 1024>\0tail", 28);
  artifact.code = {std::byte{0x7f}, std::byte{0}, std::byte{0xff}};
  artifact.compile_time_us = 12'345;
  artifact.takes_dynamic_shared = true;
  artifact.dynamic_shared_bytes = 98'304;
  artifact.box_loads = {{{"maps", 128, 64, 2}, ParameterExpression("p4.s64 2 *")},
                        {{"others", 1, 8, 4, true}, {}, true}};
  return artifact;
}

void expect_equal(const Artifact& a, const Artifact& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.target, b.target);
  EXPECT_EQ(a.entry, b.entry);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.code, b.code);
  EXPECT_EQ(a.compile_time_us, b.compile_time_us);
  EXPECT_EQ(a.takes_dynamic_shared, b.takes_dynamic_shared);
  EXPECT_EQ(a.dynamic_shared_bytes, b.dynamic_shared_bytes);
  EXPECT_EQ(a.box_loads, b.box_loads);
}

TEST(Artifact, RoundTrips) {
  expect_equal(Artifact::deserialize(sample().serialize()), sample());
  expect_equal(Artifact::deserialize(Artifact().serialize()), Artifact());
}

TEST(Artifact, RefusesEveryTruncationAndATail) {
  const std::vector<std::byte> whole = sample().serialize();
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(Artifact::deserialize({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}),
                 InternalError)
        << size;
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_THROW(Artifact::deserialize(longer), InternalError);
}

TEST(Artifact, RefusesUnknownVersionsAndEnumerators) {
  for (std::size_t field : {0u, 1u, 2u}) {
    std::vector<std::byte> bytes = sample().serialize();
    bytes[field] = std::byte{9};
    EXPECT_THROW(Artifact::deserialize(bytes), InternalError) << field;
  }
}

TEST(Artifact, DamageIsReadOrRefusedButNeverRunsOff) {
  const unsigned int seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<std::byte> whole = sample().serialize();
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes = whole;
    for (int damage = 0; damage < 3; ++damage)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xffu);
    try {
      const Artifact read = Artifact::deserialize(bytes);
      EXPECT_EQ(read.serialize(), bytes);
    } catch (const InternalError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace kiln::test
