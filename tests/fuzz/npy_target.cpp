// The reader of .npy files: whatever is read is what the file holds, and everything else is an InputFileError.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "cli/input_file_error.hpp"
#include "cli/npy.hpp"
#include "core/dtype.hpp"
#include "tests/fuzz/fuzz_target.hpp"

using kiln::fuzz::require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("fuzz.npy", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  require(::ftruncate(file, 0) == 0 && ::pwrite(file, data, size, 0) == static_cast<ssize_t>(size),
          "a file in memory is written");
  try {
    const kiln::Tensor tensor = kiln::cli::read_npy(path);
    const auto size_bytes = static_cast<std::size_t>(tensor.numel() * kiln::itemsize_bytes(tensor.dtype()));
    require(size_bytes <= size, "an array is no larger than its file");
    // Booleans are made 0 or 1.
    if (tensor.dtype() != kiln::DType::bool_ && size_bytes > 0)
      require(std::memcmp(tensor.data(), data + size - size_bytes, size_bytes) == 0, "an array is the end of its file");
  } catch (const kiln::cli::InputFileError& error) {
    for (const char* at = error.what(); *at != '\0'; ++at)
      require(static_cast<unsigned char>(*at) >= ' ' && *at != 0x7f, "an error has no control characters");
  }
  return 0;
}
