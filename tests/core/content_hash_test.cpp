#include "core/content_hash.hpp"

#include <gtest/gtest.h>

#include <set>

namespace kiln::test {
namespace {

ContentHash hash_of(std::string_view text) {
  return content_hash(std::as_bytes(std::span(text.data(), text.size())));
}

TEST(ContentHash, IsXxh3WithFixedDigits) {
  // Published digest of nothing: entries on disk are named by it, so it may not change between builds.
  EXPECT_EQ(hash_of("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ((ContentHash{1, 0xabc}).hex(), "00000000000000010000000000000abc");
  EXPECT_EQ(hash_of("kiln"), hash_of("kiln"));
  EXPECT_NE(hash_of("kiln"), hash_of("Kiln"));
}

TEST(ContentHasher, KeepsFieldsApart) {
  const std::set<ContentHash> digests = {
      ContentHasher().digest(),
      ContentHasher().field("").digest(),
      ContentHasher().field("").field("").digest(),
      ContentHasher().field("ab").field("c").digest(),
      ContentHasher().field("a").field("bc").digest(),
      ContentHasher().field("abc").digest(),
      ContentHasher().field("c").field("ab").digest(),
      ContentHasher().field(1).digest(),
      ContentHasher().field(-1).digest(),
      ContentHasher().field(1).field(1).digest(),
      ContentHasher().field("1").digest(),
      ContentHasher().field(std::string_view("\1\0\0\0\0\0\0\0", 8)).digest(),
  };
  EXPECT_EQ(digests.size(), 12u);
  EXPECT_EQ(ContentHasher().field("ab").field(7).digest(), ContentHasher().field("ab").field(7).digest());
}

}  // namespace
}  // namespace kiln::test
