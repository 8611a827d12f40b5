// Artifacts as the cache reads them: behind a checksum, so that bad bytes are Kiln's own fault, but never a crash.
#include <cstring>
#include <vector>

#include "core/artifact.hpp"
#include "core/errors.hpp"
#include "tests/fuzz/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  try {
    const kiln::Artifact artifact = kiln::Artifact::deserialize(bytes);
    kiln::fuzz::require(artifact.serialize() == bytes, "an artifact has one form");
  } catch (const kiln::InternalError&) {
  }
  return 0;
}
