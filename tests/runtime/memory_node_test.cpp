#include "runtime/transfer/memory_node.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kiln::test {
namespace {

TEST(MemoryNode, ReadsTheSystemsListsOfProcessors) {
  EXPECT_EQ(parse_processor_list("0"), (std::vector<int>{0}));
  EXPECT_EQ(parse_processor_list("0-3,8,10-11"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_processor_list(""), std::vector<int>{}) << "a node without processors";
  for (const char* broken : {"x", "3-1", "1,,2", "1-", "-1", "1;2"})
    EXPECT_EQ(parse_processor_list(broken), std::vector<int>{}) << broken;
}

TEST(MemoryNode, MakesEveryPage) {
  // Enough for two threads, and an odd number of pages.
  constexpr std::size_t kBytes = (std::size_t{160} << 20) + 4096;
  constexpr std::size_t kPages = kBytes / 4096;
  for (const int node : {-1, 0, 100'000}) {  // the last is nowhere: a wish that nobody can grant
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    make_pages(memory, kBytes, node);
    std::vector<unsigned char> is_resident(kPages);
    ASSERT_EQ(mincore(memory, kBytes, is_resident.data()), 0);
    EXPECT_TRUE(std::all_of(is_resident.begin(), is_resident.end(), [](unsigned char page) { return (page & 1) != 0; }))
        << "node " << node;
    munmap(memory, kBytes);
  }
}

}  // namespace
}  // namespace kiln::test
