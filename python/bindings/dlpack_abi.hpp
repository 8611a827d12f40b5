#pragma once

#include <cstdint>

#include "core/tensor.hpp"

/// The structures of DLPack 1.3 as they lie in memory; distributions still ship headers from before versions and the
/// exchange API.
namespace kiln::python::dlpack {

inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::uint64_t kReadOnly = 1;

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct Type {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Array {
  void* data;
  Device device;
  std::int32_t ndim;
  Type dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: row-major
  std::uint64_t byte_offset;
};

struct Managed {
  Array array;
  void* context;
  void (*deleter)(Managed* self);
};

struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned* self);
  std::uint64_t flags;
  Array array;
};

/// What an array library offers C callers, found as the capsule `__dlpack_c_exchange_api__` of its array type. Calls
/// that return int give 0, or -1 with a Python error set.
struct ExchangeApi {
  struct Header {
    Version version;
    Header* previous;
  } header;
  using SetError = void (*)(void* context, const char* kind, const char* message);
  /// The new array of prototype's dtype, shape and device, on the library's current stream. Errors go to `set_error`.
  int (*allocate)(Array* prototype, ManagedVersioned** out, void* error_context, SetError set_error);
  int (*to_managed)(void* object, ManagedVersioned** out);
  /// Takes the tensor over.
  int (*to_object)(ManagedVersioned* tensor, void** out);
  /// A borrowed look, good until control returns to Python; may be null.
  int (*borrow)(void* object, Array* out);
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** out);
};

/// UsageError(type or value) for a dtype, device or rank Kiln does not take.
TensorView view_of(const Array& array);

/// A managed tensor that keeps `tensor` alive until its deleter runs, from any thread. `M` is Managed or
/// ManagedVersioned.
template <typename M>
M* export_tensor(const Tensor& tensor);
extern template Managed* export_tensor<Managed>(const Tensor& tensor);
extern template ManagedVersioned* export_tensor<ManagedVersioned>(const Tensor& tensor);

}  // namespace kiln::python::dlpack
