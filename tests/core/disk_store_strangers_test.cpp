#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "core/disk_store.hpp"
#include "core/file_lock.hpp"
#include "tests/core/store_contents.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"

/// What is not Kiln's and lies where Kiln keeps its cache: it is there afterwards, byte for byte, whatever is done.
namespace kiln::test {
namespace {

namespace fs = std::filesystem;

/// Paths below a folder, each with its type, its target or its bytes. Links are not followed.
using Snapshot = std::map<std::string, std::string>;

Snapshot snapshot(const fs::path& folder) {
  Snapshot found;
  for (const fs::directory_entry& item : fs::recursive_directory_iterator(folder)) {
    std::string& content = found[item.path().lexically_relative(folder).string()];
    if (item.is_symlink()) {
      content = "link to " + fs::read_symlink(item.path()).string();
    } else if (item.is_regular_file()) {
      std::ifstream stream(item.path(), std::ios::binary);
      content = "file " + std::string(std::istreambuf_iterator<char>(stream), {});
    } else {
      content = item.is_directory() ? "folder" : "other";
    }
  }
  return found;
}

void put_text(const fs::path& path, const std::string& text = "mine") {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// All that a process may do with a store, over its capacity too.
void use(const fs::path& root) {
  DiskStore store(root, 5 * 156);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(store.read_or_build(key_of(i), [&] { return payload_of(i); }), payload_of(i));
  store.write(key_of(0), payload_of(0));
  store.list(true);
  store.remove_damaged();
  store.prune(156);
  store.prune(0);
  store.clear();
}

/// Where the entry of key 0 lies.
fs::path place_of_entry(const fs::path& root) {
  const std::string hex = key_of(0).hex();
  return root / hex.substr(0, 2) / (hex.substr(2) + ".entry");
}

struct Stranger {
  const char* description;
  std::function<void(const fs::path& root)> put;
};

/// Each in a folder of Kiln's own, or in one that somebody else made.
const std::vector<Stranger>& strangers() {
  static const std::vector<Stranger> all = {
      {"a file of a name of its own", [](const fs::path& root) { put_text(root / "notes.txt"); }},
      {"a folder tree", [](const fs::path& root) { put_text(root / "release" / "1.0" / "app.tar"); }},
      {"a tree below staging", [](const fs::path& root) { put_text(root / "staging" / "release" / "app.tar"); }},
      {"a file below staging", [](const fs::path& root) { put_text(root / "staging" / "app.tar"); }},
      {"a file below staging by a name of Kiln's", [](const fs::path& root) { put_text(root / "staging" / "17-0"); }},
      {"a file below locks", [](const fs::path& root) { put_text(root / "locks" / "poetry.lock", ""); }},
      {"a file below locks by a name of Kiln's",
       [](const fs::path& root) { put_text(root / "locks" / (key_of(0).hex() + ".lock")); }},
      {"a folder below locks by a name of Kiln's",
       [](const fs::path& root) { put_text(root / "locks" / (key_of(0).hex() + ".lock") / "inner"); }},
      {"a link below locks",
       [](const fs::path& root) {
         fs::create_directories(root / "locks");
         fs::create_symlink(root.parent_path() / "outside", root / "locks" / (key_of(0).hex() + ".lock"));
       }},
      {"a file named staging", [](const fs::path& root) { put_text(root / "staging"); }},
      {"a file named locks", [](const fs::path& root) { put_text(root / "locks"); }},
      {"a file named usage", [](const fs::path& root) { put_text(root / "usage"); }},
      {"a long file named usage", [](const fs::path& root) { put_text(root / "usage", std::string(100, 'u')); }},
      {"a folder named usage", [](const fs::path& root) { put_text(root / "usage" / "inner"); }},
      {"links to folders named as Kiln's",
       [](const fs::path& root) {
         fs::create_directories(root);
         for (const char* name : {"staging", "locks", "usage"})
           fs::create_directory_symlink(root.parent_path() / "outside", root / name);
       }},
      {"a folder named as a shard, with other files",
       [](const fs::path& root) { put_text(place_of_entry(root).parent_path() / "table.csv"); }},
      {"a file named as a shard", [](const fs::path& root) { put_text(place_of_entry(root).parent_path()); }},
      {"a link named as a shard",
       [](const fs::path& root) {
         fs::create_directories(root);
         fs::create_directory_symlink(root.parent_path() / "outside", place_of_entry(root).parent_path());
       }},
      {"a file in an entry's place",
       [](const fs::path& root) { put_text(place_of_entry(root), std::string(300, 'e')); }},
      {"a folder in an entry's place", [](const fs::path& root) { put_text(place_of_entry(root) / "inner"); }},
      {"a link in an entry's place",
       [](const fs::path& root) {
         const fs::path path = place_of_entry(root);
         fs::create_directories(path.parent_path());
         fs::create_symlink(root.parent_path() / "outside" / "file", path);
       }},
      {"a FIFO in an entry's place",
       [](const fs::path& root) {
         const fs::path path = place_of_entry(root);
         fs::create_directories(path.parent_path());
         ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
       }},
      {"a file named as the marker", [](const fs::path& root) { put_text(root / "kiln-store"); }},
  };
  return all;
}

class DiskStoreStrangersTest : public ::testing::Test {
 protected:
  DiskStoreStrangersTest() {
    put_text(outside_ / "file");
    put_text(outside_ / "poetry.lock", "");
    put_text(outside_ / "staging" / "17-0");
  }

  /// What `before` held is there still, unchanged; what is not is Kiln's.
  void expect_left(const fs::path& root, const Snapshot& before) const {
    const Snapshot after = snapshot(root);
    for (const auto& [path, content] : before) EXPECT_THAT(after, Contains(std::pair(path, content))) << path;
    EXPECT_EQ(snapshot(outside_), outside_before_);
  }

  const TemporaryDirectory directory_;
  const fs::path outside_ = directory_.path() / "outside";
  const fs::path root_ = directory_.path() / "store";
  Snapshot outside_before_;

  void SetUp() override { outside_before_ = snapshot(outside_); }
};

TEST_F(DiskStoreStrangersTest, AFolderThatIsNotKilnsIsRefusedAndLeftAsItIs) {
  for (const Stranger& stranger : strangers()) {
    SCOPED_TRACE(stranger.description);
    fs::remove_all(root_);
    stranger.put(root_);
    fs::permissions(root_, fs::perms(0700));
    const Snapshot before = snapshot(root_);
    {
      DiskStore store(root_, kAmpleBytes);
      EXPECT_EQ(store.state(), DiskStore::State::refused);
      EXPECT_THAT(store.problem(), Says(root_.string(), "not Kiln's", "KILN_CACHE_DIR"));
    }
    use(root_);
    EXPECT_EQ(snapshot(root_), before);
    expect_left(root_, before);
  }
}

TEST_F(DiskStoreStrangersTest, WhatIsPutIntoKilnsFolderIsLeftAndNamed) {
  for (const Stranger& stranger : strangers()) {
    SCOPED_TRACE(stranger.description);
    fs::remove_all(root_);
    ASSERT_TRUE(DiskStore(root_, kAmpleBytes).write(key_of(100), payload_of(100)));
    if (std::string(stranger.description) == "a file named as the marker") continue;
    fs::remove_all(root_ / "usage");
    if (fs::is_empty(root_ / "staging")) fs::remove(root_ / "staging");
    const Snapshot kilns = snapshot(root_);
    stranger.put(root_);
    Snapshot before = snapshot(root_);
    for (const auto& [path, content] : kilns) before.erase(path);
    ASSERT_FALSE(before.empty());
    EXPECT_EQ(DiskStore(root_, kAmpleBytes).state(), DiskStore::State::usable);
    use(root_);
    expect_left(root_, before);
    // Every file is named, by itself or by the folder's place that it takes.
    const std::vector<std::string> named = DiskStore(root_, kAmpleBytes).strangers();
    for (const auto& [path, content] : before) {
      if (content == "folder") continue;
      EXPECT_TRUE(std::ranges::any_of(named, [&](const std::string& name) { return path.starts_with(name); })) << path;
    }
  }
}

TEST_F(DiskStoreStrangersTest, WhatIsInTheWayIsNamedInTheProblem) {
  for (const char* name : {"staging", "usage"}) {
    fs::remove_all(root_);
    DiskStore store(root_, kAmpleBytes);
    put_text(root_ / name);
    EXPECT_FALSE(store.write(key_of(0), payload_of(0)));
    EXPECT_THAT(store.problem(), Says(name, "not Kiln's", "move it away"));
    fs::remove(root_ / name);
    EXPECT_TRUE(store.write(key_of(0), payload_of(0)));
    EXPECT_EQ(store.problem(), "");
  }
}

TEST_F(DiskStoreStrangersTest, TheFolderAboveMayBeReachedByALinkTheStoreMayNot) {
  const fs::path real = directory_.path() / "real";
  fs::create_directories(real);
  fs::create_directory_symlink(real, directory_.path() / "link");
  EXPECT_TRUE(DiskStore(directory_.path() / "link" / "artifacts", kAmpleBytes).write(key_of(0), payload_of(0)));
  EXPECT_TRUE(fs::exists(real / "artifacts" / "kiln-store"));

  for (const char* name : {"store", "store/"}) {
    fs::remove(root_);
    fs::create_directory_symlink(real / "artifacts", root_);
    const Snapshot before = snapshot(real);
    DiskStore store(directory_.path() / name, kAmpleBytes);
    EXPECT_EQ(store.state(), DiskStore::State::refused) << name;
    EXPECT_THAT(store.problem(), HasSubstr("symbolic link"));
    use(directory_.path() / name);
    EXPECT_EQ(snapshot(real), before);
  }
}

TEST_F(DiskStoreStrangersTest, AStoreFromBeforeTheMarkerIsAdopted) {
  {
    DiskStore store(root_, kAmpleBytes);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(store.write(key_of(i), payload_of(i)));
  }
  // As earlier versions left it: no marker, a count without a header, what a killed writer leaves, a damaged entry.
  fs::remove(root_ / "kiln-store");
  const std::array<std::int64_t, 2> usage{5 * 156, ~(5 * 156LL)};
  put_text(root_ / "usage", std::string(reinterpret_cast<const char*>(usage.data()), sizeof usage));
  put_text(root_ / "staging" / "17-0", "KILNDISK...");
  put_text(root_ / "staging" / "17-1", "");
  put_text(root_ / "locks" / (key_of(9).hex() + ".lock"), "");
  fs::resize_file(place_of_entry(root_), 60);
  DiskStore store(root_, kAmpleBytes);
  EXPECT_EQ(store.state(), DiskStore::State::usable) << store.problem();
  EXPECT_TRUE(fs::exists(root_ / "kiln-store"));
  for (int i = 1; i < 5; ++i) EXPECT_EQ(store.read(key_of(i)), payload_of(i));
  EXPECT_EQ(store.clear().entries, 5);
  EXPECT_EQ(count_files(root_ / "staging"), 0);
  EXPECT_EQ(count_files(root_ / "locks"), 0);
}

TEST_F(DiskStoreStrangersTest, AnInterruptedMarkerIsWrittenAnew) {
  ASSERT_TRUE(DiskStore(root_, kAmpleBytes).write(key_of(0), payload_of(0)));
  const auto whole_bytes = fs::file_size(root_ / "kiln-store");
  for (const std::uintmax_t size : {std::uintmax_t{0}, std::uintmax_t{1}, whole_bytes - 1}) {
    fs::resize_file(root_ / "kiln-store", size);
    DiskStore store(root_, kAmpleBytes);
    EXPECT_EQ(store.read(key_of(0)), payload_of(0));
    EXPECT_EQ(fs::file_size(root_ / "kiln-store"), whole_bytes);
  }
}

TEST_F(DiskStoreStrangersTest, EveryFlippedBitOfAnEntryLeavesItKilns) {
  DiskStore store(root_, kAmpleBytes);
  for (std::size_t bit = 0; bit < 56 * 8; ++bit) {
    ASSERT_TRUE(store.write(key_of(0), payload_of(0)));
    const fs::path path = entry_path(store, key_of(0));
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const auto place = static_cast<std::streamoff>(bit / 8);
    file.seekg(place);
    const int byte = file.get();
    file.seekp(place);
    file.put(static_cast<char>(byte ^ (1 << (bit % 8))));
    file.close();
    ASSERT_EQ(store.remove_damaged().entries, 1) << "bit " << bit;
  }
}

TEST_F(DiskStoreStrangersTest, ALockIsNeverTakenOnAFileThatHoldsSomething) {
  put_text(root_ / "a.lock");
  const FileDescriptor directory(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_FALSE(LockFile::acquire(directory, "a.lock"));
  EXPECT_EQ(snapshot(root_), (Snapshot{{"a.lock", "file mine"}}));
}

}  // namespace
}  // namespace kiln::test
