#pragma once

#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln {

/// Name -> OpSpec. Built-ins are there from the start; users add their own at run time. Thread-safe; a spec, once
/// registered, is never changed or removed.
class Registry {
 public:
  static Registry& process();

  /// UsageError(value) when the name is taken or empty, or when the spec lacks a part it must have.
  void register_op(OpSpec spec);
  /// nullptr when unknown.
  const OpSpec* find(std::string_view name) const;
  /// UsageError(value) naming the nearest names.
  const OpSpec& get(std::string_view name) const;
  std::vector<std::string> names() const;  ///< sorted

 private:
  Registry();
  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const noexcept { return std::hash<std::string_view>{}(name); }
  };
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<const OpSpec>, NameHash, std::equal_to<>> specs_;
};

/// Registers a user op whose kernel reads and writes dense tensors elementwise over a 1-D grid, from a source string:
///   template <typename T, int BLOCK_SIZE> KILN_KERNEL void NAME(const T* in0, ..., T* out, int64_t n)
/// All inputs share one dtype and shape, which the single output takes too. For anything else fill in an OpSpec.
struct ElementwiseKernel {
  std::string name;
  std::string doc;
  KernelSource source;
  std::string kernel;  ///< qualified template name
  int num_inputs = 1;
  std::vector<DType> dtypes{DType::f32};
};
void register_elementwise_kernel(const ElementwiseKernel& kernel);
/// Reads a kernel file, and as its headers the files that it includes with quotes and that lie beside it, theirs too.
/// UsageError(value) when it cannot be read.
KernelSource read_kernel_source(const std::string& path);

}  // namespace kiln
