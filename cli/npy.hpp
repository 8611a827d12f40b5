#pragma once

#include <string>
#include <string_view>

#include "core/dtype.hpp"
#include "core/shape.hpp"
#include "core/tensor.hpp"

namespace kiln::cli {

/// What the header of a NumPy .npy file says.
struct NpyHeader {
  DType dtype = DType::f32;
  Dims shape;
};

/// Parses the dictionary of an .npy header. InputFileError naming `file` and the reason: malformed text, big-endian,
/// Fortran order (of an array where the order matters), object, structured or other dtypes that Kiln has no equal of, a
/// shape that no memory holds.
NpyHeader parse_npy_header(std::string_view text, std::string_view file);

/// Reads a C-ordered little-endian .npy file (format 1.0, 2.0 or 3.0) straight into a dense CPU tensor.
/// InputFileError as above, and for a file that cannot be opened, is truncated, or has bytes after the array.
Tensor read_npy(const std::string& path);

/// The dtype an .npy file of `dtype` would hold: itself, or u16/u8 for bf16 and fp8, which NumPy has no dtype for.
DType npy_storage_dtype(DType dtype) noexcept;

/// Writes a dense CPU tensor, in format 1.0. A file is replaced as a whole or left as it was; bf16 and fp8 are written
/// as npy_storage_dtype's bits. SystemError when the file system refuses.
void write_npy(const std::string& path, const TensorView& tensor);

}  // namespace kiln::cli
