#include "cli/npy.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "cli/input_file_error.hpp"
#include "core/errors.hpp"
#include "core/file_lock.hpp"
#include "core/output_file.hpp"
#include "runtime/memory.hpp"

namespace kiln::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
/// NumPy itself refuses headers beyond 10 000 characters; an array of Kiln's rank needs some 400.
constexpr std::size_t kMaxHeaderBytes = 65536;

std::string reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

/// Reads until `size_bytes` or the end of the file; returns how many bytes came.
std::size_t read_fully(int file, void* destination, std::size_t size_bytes, const std::string& path) {
  std::size_t done = 0;
  while (done < size_bytes) {
    const ssize_t count = ::read(file, static_cast<char*>(destination) + done, size_bytes - done);
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw InputFileError(fmt::format("cannot read '{}': {}", path, reason(errno)));
    done += static_cast<std::size_t>(count);
  }
  return done;
}

NpyHeader read_header(int file, const std::string& path, std::size_t& header_bytes) {
  const auto fail = [&](const std::string& why) {
    throw InputFileError(fmt::format("cannot read '{}': {}", path, why));
  };
  std::array<unsigned char, 12> start{};
  const std::size_t got = read_fully(file, start.data(), 8, path);
  if (got < kMagic.size() || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0)
    fail(got == 0 ? "it is empty" : "it is not an .npy file (its first bytes are not NumPy's)");
  if (got < 8) fail("it is truncated inside its header");
  const int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0)
    fail(fmt::format("its .npy format version is {}.{}; Kiln reads 1.0, 2.0 and 3.0", version, start[7]));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (read_fully(file, start.data() + 8, length_bytes, path) < length_bytes) fail("it is truncated inside its header");
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= std::size_t{start[8 + i]} << (8 * i);
  if (length > kMaxHeaderBytes)
    fail(fmt::format("its header claims {} bytes; Kiln's limit is {}", length, kMaxHeaderBytes));
  std::string text(length, '\0');
  if (read_fully(file, text.data(), length, path) < length) fail("it is truncated inside its header");
  header_bytes = 8 + length_bytes + length;
  return parse_npy_header(text, path);
}

std::string header_text(DType dtype, const Dims& shape) {
  const DTypeInfo& stored = info(dtype);
  const char kind = dtype == DType::bool_                        ? 'b'
                    : stored.category == DTypeCategory::floating ? 'f'
                    : stored.is_signed                           ? 'i'
                                                                 : 'u';
  std::string extents;
  for (const std::int64_t extent : shape) extents += fmt::format("{}, ", extent);
  // Python writes (3,) but (3, 4).
  if (!extents.empty()) extents.erase(extents.size() - (shape.size() == 1 ? 1 : 2));
  std::string text = fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 stored.itemsize_bytes == 1 ? '|' : '<', kind, stored.itemsize_bytes, extents);
  // The format asks for data that starts at a multiple of 64: 10 bytes of prefix, the text, blanks, a newline.
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  return text;
}

}  // namespace

Tensor read_npy(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw InputFileError(fmt::format("cannot open '{}': {}", path, reason(errno)));
  std::size_t header_bytes = 0;
  const NpyHeader header = read_header(file.get(), path, header_bytes);
  const auto data_bytes = static_cast<std::size_t>(num_elements(header.shape) * itemsize_bytes(header.dtype));
  const auto fail_size = [&](std::string_view what, std::size_t has) {
    throw InputFileError(fmt::format("cannot read '{}': {}; its header promises {} {} ({} bytes) and {} bytes follow",
                                     path, what, name(header.dtype), to_string(header.shape), data_bytes, has));
  };

  // A regular file's size is known, so a header that lies is refused before memory is asked for. A pipe shows it only
  // while reading.
  struct stat status{};
  if (::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    const auto has =
        static_cast<std::size_t>(status.st_size) - std::min(header_bytes, static_cast<std::size_t>(status.st_size));
    if (has < data_bytes) fail_size("it is truncated", has);
    if (has > data_bytes) fail_size("it has bytes after the array", has);
  }

  Tensor tensor = empty(header.shape, header.dtype, Device::cpu());
  const std::size_t got = read_fully(file.get(), tensor.data(), data_bytes, path);
  if (got < data_bytes) fail_size("it is truncated", got);
  if (char extra = 0; read_fully(file.get(), &extra, 1, path) != 0)
    fail_size("it has bytes after the array", data_bytes + 1);
  if (header.dtype == DType::bool_) {
    // Any non-zero byte is true to NumPy; a C++ bool must be 0 or 1.
    auto* bytes = static_cast<unsigned char*>(tensor.data());
    for (std::size_t i = 0; i < data_bytes; ++i) bytes[i] = bytes[i] != 0;
  }
  return tensor;
}

DType npy_storage_dtype(DType dtype) noexcept {
  if (dtype == DType::bf16) return DType::u16;
  return is_fp8(dtype) ? DType::u8 : dtype;
}

void write_npy(const std::string& path, const TensorView& tensor) {
  if (tensor.device.is_cuda() || !tensor.is_contiguous())
    throw InternalError("write_npy takes a dense CPU tensor, not " + describe(tensor));
  OutputFile file(path);
  const std::string text = header_text(npy_storage_dtype(tensor.dtype), tensor.shape);
  std::string prefix(kMagic);
  prefix += '\x01';
  prefix += '\0';
  prefix += static_cast<char>(text.size() & 0xff);
  prefix += static_cast<char>(text.size() >> 8);
  prefix += text;

  file.write(prefix.data(), prefix.size());
  file.write(tensor.data, static_cast<std::size_t>(tensor.numel() * itemsize_bytes(tensor.dtype)));
  file.commit();
}

}  // namespace kiln::cli
