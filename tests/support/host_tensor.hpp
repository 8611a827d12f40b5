#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ops/builtin_ops.hpp"
#include "ops/common/element.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {

/// A dense tensor on the host whose elements are given and read as double or int64_t.
class HostTensor {
 public:
  HostTensor(DType dtype, const Dims& shape)
      : dtype_(dtype),
        shape_(shape),
        bytes_(static_cast<std::size_t>(num_elements(shape) * itemsize_bytes(dtype)) + 8) {}
  template <typename T>
  HostTensor(DType dtype, const Dims& shape, const std::vector<T>& values) : HostTensor(dtype, shape) {
    if (static_cast<std::int64_t>(values.size()) != num_elements(shape))
      throw std::logic_error("wrong number of values");
    for (std::size_t i = 0; i < values.size(); ++i) common::store_element<T>(address(i), dtype, values[i]);
  }

  TensorView view() { return dense_view(bytes_.data(), dtype_, shape_); }
  template <typename T>
  std::vector<T> values() {
    std::vector<T> result;
    for (std::size_t i = 0; i < static_cast<std::size_t>(num_elements(shape_)); ++i)
      result.push_back(common::load_element<T>(address(i), dtype_));
    return result;
  }

 private:
  void* address(std::size_t i) { return bytes_.data() + i * static_cast<std::size_t>(itemsize_bytes(dtype_)); }
  DType dtype_;
  Dims shape_;
  std::vector<std::byte> bytes_;
};

inline const OpSpec& spec_of(std::string_view name) {
  static const std::vector<OpSpec> specs = builtin_ops();
  for (const OpSpec& spec : specs)
    if (spec.name == name) return spec;
  throw std::logic_error("no op " + std::string(name));
}

/// The attributes with the spec's defaults filled in, as the dispatcher hands them to a spec.
inline Attributes with_defaults(const OpSpec& spec, const Attributes& given) {
  Attributes attributes = given;
  for (const AttributeSpec& attribute : spec.attributes)
    if (attributes.find(attribute.name) == nullptr) attributes.set(attribute.name, attribute.fallback);
  return attributes;
}

inline std::vector<TensorMeta> infer(std::string_view op, const std::vector<TensorView>& inputs,
                                     const Attributes& given = {}) {
  const OpSpec& spec = spec_of(op);
  return spec.infer(inputs, with_defaults(spec, given));
}

/// What the op refuses a call with: a UsageError of this kind.
inline std::string refusal(UsageError::Kind kind, std::string_view op, const std::vector<TensorView>& inputs,
                           const Attributes& given) {
  SCOPED_TRACE("op " + std::string(op));
  return usage_message(kind, [&] { infer(op, inputs, given); });
}
inline std::string value_refusal(std::string_view op, const std::vector<TensorView>& inputs,
                                 const Attributes& given = {}) {
  return refusal(UsageError::Kind::value, op, inputs, given);
}
inline std::string type_refusal(std::string_view op, const std::vector<TensorView>& inputs,
                                const Attributes& given = {}) {
  return refusal(UsageError::Kind::type, op, inputs, given);
}

/// Infers, allocates and runs the reference.
inline HostTensor run_reference(std::string_view op, const std::vector<TensorView>& inputs,
                                const Attributes& given = {}) {
  const OpSpec& spec = spec_of(op);
  const Attributes attributes = with_defaults(spec, given);
  const TensorMeta meta = spec.infer(inputs, attributes).at(0);
  HostTensor output(meta.dtype, meta.shape);
  const TensorView view = output.view();
  spec.reference({inputs, std::span(&view, 1), attributes});
  return output;
}

}  // namespace kiln::test
