#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "core/disk_store.hpp"

namespace kiln::test {

using Bytes = std::vector<std::byte>;

inline constexpr std::int64_t kAmpleBytes = std::int64_t{1} << 30;

inline ContentHash key_of(std::int64_t number) {
  return ContentHasher().field("test").field(number).digest();
}

/// The one right payload of a number: what a store returns for key_of(number) must equal it.
inline Bytes payload_of(std::int64_t number, std::size_t size_bytes = 100) {
  std::mt19937_64 random(static_cast<std::uint64_t>(number) + 1);
  Bytes bytes(size_bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

inline std::filesystem::path entry_path(const DiskStore& store, const ContentHash& key) {
  const std::string hex = key.hex();
  return store.root() / hex.substr(0, 2) / (hex.substr(2) + ".entry");
}

/// 0 for a directory that is not there.
inline std::int64_t count_files(const std::filesystem::path& directory) {
  std::error_code missing;
  return std::distance(std::filesystem::directory_iterator(directory, missing), std::filesystem::directory_iterator());
}

}  // namespace kiln::test
