#include "registry/user_ops/kernel_binding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "core/errors.hpp"
#include "core/float_formats.hpp"
#include "core/nearest_name.hpp"

namespace kiln {
namespace {

using Kind = TemplateParameter::Kind;

/// Why a value does not go to a place; empty: it does.
using Problem = std::string;

bool is_none(const AttributeValue* value) {
  return value == nullptr || std::holds_alternative<std::monostate>(*value);
}

std::optional<std::int64_t> integer_of(const AttributeValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? 1 : 0;
  return std::nullopt;
}

std::optional<double> number_of(const AttributeValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* large = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*large);
  if (const auto integer = integer_of(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

template <typename T>
Problem add_integer(const AttributeValue& value, ArgumentTemplate& arguments) {
  const auto add = [&](auto integer) -> Problem {
    if (!std::in_range<T>(integer))
      return fmt::format("does not fit: the parameter takes {} to {}", std::numeric_limits<T>::min(),
                         std::numeric_limits<T>::max());
    arguments.add_value(static_cast<T>(integer));
    return {};
  };
  if (const auto* large = std::get_if<std::uint64_t>(&value)) return add(*large);
  if (const auto integer = integer_of(value)) return add(*integer);
  return "is no integer";
}

template <typename Convert>
Problem add_number(const AttributeValue& value, ArgumentTemplate& arguments, Convert convert) {
  const auto number = number_of(value);
  if (!number.has_value()) return "is no number";
  arguments.add_value(convert(*number));
  return {};
}

Problem add_as(DType dtype, const AttributeValue& value, ArgumentTemplate& arguments) {
  const auto narrow = [](double number) { return static_cast<float>(number); };
  switch (dtype) {
    case DType::f64:
      return add_number(value, arguments, [](double number) { return number; });
    case DType::f32:
      return add_number(value, arguments, narrow);
    case DType::f16:
      return add_number(value, arguments, [&](double number) { return formats::f32_to_f16(narrow(number)); });
    case DType::bf16:
      return add_number(value, arguments, [&](double number) { return formats::f32_to_bf16(narrow(number)); });
    case DType::fp8e4m3:
      return add_number(value, arguments, [&](double number) { return formats::f32_to_fp8e4m3(narrow(number)); });
    case DType::fp8e5m2:
      return add_number(value, arguments, [&](double number) { return formats::f32_to_fp8e5m2(narrow(number)); });
    case DType::i64:
      return add_integer<std::int64_t>(value, arguments);
    case DType::i32:
      return add_integer<std::int32_t>(value, arguments);
    case DType::i16:
      return add_integer<std::int16_t>(value, arguments);
    case DType::i8:
      return add_integer<std::int8_t>(value, arguments);
    case DType::u64:
      return add_integer<std::uint64_t>(value, arguments);
    case DType::u32:
      return add_integer<std::uint32_t>(value, arguments);
    case DType::u16:
      return add_integer<std::uint16_t>(value, arguments);
    case DType::u8:
      return add_integer<std::uint8_t>(value, arguments);
    case DType::bool_: {
      const auto integer = integer_of(value);
      if (!integer.has_value() || (*integer != 0 && *integer != 1)) return "is no boolean";
      arguments.add_value(*integer == 1);
      return {};
    }
  }
  throw InternalError("a kernel parameter's dtype without a case");
}

/// "1'000u" and "-3" as integers, "1.5f" and "1e-3" as numbers, "true" and "false".
AttributeValue parse_literal(std::string text) {
  if (text == "true" || text == "false") return text == "true";
  std::erase(text, '\'');
  const bool is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const bool is_real = !is_hexadecimal && text.find_first_of(".eE") != std::string::npos;
  const std::string_view suffixes = is_real ? "fFlL" : "uUlL";
  while (!text.empty() && suffixes.find(text.back()) != std::string_view::npos) text.pop_back();
  const char* const begin = text.data() + (is_hexadecimal ? 2 : 0);
  const char* const end = text.data() + text.size();
  if (is_real) {
    double number = 0;
    const auto [stop, error] = std::from_chars(begin, end, number);
    if (error == std::errc() && stop == end) return number;
    return std::monostate{};
  }
  if (text.size() > 1 && text[0] == '0' && !is_hexadecimal) return std::monostate{};  // octal
  const auto whole = [&]<typename Integer>(Integer integer) -> std::optional<Integer> {
    const auto [stop, error] = std::from_chars(begin, end, integer, is_hexadecimal ? 16 : 10);
    return error == std::errc() && stop == end ? std::optional(integer) : std::nullopt;
  };
  if (const auto integer = whole(std::int64_t{})) return *integer;
  if (const auto large = whole(std::uint64_t{})) return *large;
  return std::monostate{};
}

bool is_type_name(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_:<>, ").find(c) != std::string::npos;
  });
}

}  // namespace

KernelBinding::KernelBinding(KernelSignature signature) : signature_(std::move(signature)) {
  if (signature_.parameters.size() > static_cast<std::size_t>(kMaxArguments))
    throw_not_implemented(fmt::format("kernel '{}' has {} parameters; at most {} can be passed", signature_.kernel,
                                      signature_.parameters.size(), kMaxArguments));
  for (const TemplateParameter& parameter : signature_.template_parameters)
    if (parameter.kind == Kind::other)
      throw_not_implemented(fmt::format(
          "kernel '{}': template parameter '{}' is neither a type, an integer nor a boolean, so a call cannot give it",
          signature_.kernel, parameter.name));
  for (const KernelParameter& parameter : signature_.parameters) {
    const auto& all = signature_.template_parameters;
    const bool is_template_type = std::any_of(all.begin(), all.end(), [&](const TemplateParameter& candidate) {
      return candidate.kind == Kind::type && candidate.name == parameter.value_type;
    });
    if (is_template_type || spelled_dtype(parameter.value_type).has_value() ||
        (parameter.is_pointer && parameter.value_type == "void"))
      continue;
    throw_not_implemented(fmt::format(
        "kernel '{}': parameter '{}' has type '{}', which a call cannot give; parameters are numbers (float, "
        "tl::int64_t, tl::bfloat16, bool, ...) or pointers to them, or of a type that is a template parameter",
        signature_.kernel, parameter.name, parameter.type));
  }
}

AttributeValue KernelBinding::fallback_of(const TemplateParameter& parameter) {
  if (parameter.fallback.empty()) return std::monostate{};
  if (parameter.kind != Kind::type) return parse_literal(parameter.fallback);
  if (const auto dtype = spelled_dtype(parameter.fallback)) return *dtype;
  if (is_type_name(parameter.fallback)) return parameter.fallback;
  return std::monostate{};
}

AttributeValue KernelBinding::fallback_of(const KernelParameter& parameter) {
  return parameter.fallback.empty() ? AttributeValue{} : parse_literal(parameter.fallback);
}

bool KernelBinding::is_deduced(const TemplateParameter& parameter) const {
  return parameter.kind == Kind::type &&
         std::any_of(signature_.parameters.begin(), signature_.parameters.end(), [&](const KernelParameter& candidate) {
           return candidate.is_pointer && candidate.value_type == parameter.name;
         });
}

KernelLaunch KernelBinding::bind(std::span<const Pointer> pointers, const Attributes& values) const {
  KernelLaunch launch;
  launch.kernel = signature_.kernel;
  launch.template_arguments = template_arguments(pointers, values);
  std::size_t next_pointer = 0;
  for (const KernelParameter& parameter : signature_.parameters) {
    if (!parameter.is_pointer) {
      add_value(parameter, launch.template_arguments, values, launch);
      continue;
    }
    if (next_pointer == pointers.size())
      throw InternalError(fmt::format("kernel '{}' takes more tensors than it was given", signature_.kernel));
    add_pointer(parameter, pointers[next_pointer++], launch.template_arguments, launch);
  }
  return launch;
}

std::vector<TemplateArgument> KernelBinding::template_arguments(std::span<const Pointer> pointers,
                                                                const Attributes& values) const {
  std::vector<TemplateArgument> arguments;
  for (const TemplateParameter& parameter : signature_.template_parameters)
    arguments.push_back(parameter.kind == Kind::type ? type_argument(parameter, pointers, values)
                                                     : number_argument(parameter, values));
  return arguments;
}

TemplateArgument KernelBinding::type_argument(const TemplateParameter& parameter, std::span<const Pointer> pointers,
                                              const Attributes& values) const {
  std::optional<DType> dtype;
  std::string source;  // of the dtype, for messages
  std::optional<std::string> type_name;
  if (const AttributeValue* given = values.find(parameter.name); !is_none(given)) {
    const auto* text = std::get_if<std::string>(given);
    if (const auto* value = std::get_if<DType>(given)) {
      dtype = *value;
    } else if (text == nullptr) {
      throw_type_error(fmt::format("kernel '{}': template parameter '{}' is a type, got {}", signature_.kernel,
                                   parameter.name, to_string(*given)));
    } else if (is_deduced(parameter)) {
      dtype = parse_dtype(*text);
    } else if (dtype = find_dtype(*text); !dtype.has_value()) {
      if (!is_type_name(*text))
        throw_value_error(fmt::format("kernel '{}': template parameter '{}' cannot be '{}', which names no type",
                                      signature_.kernel, parameter.name, *text));
      type_name = *text;
    }
    source = "as given";
  }
  std::size_t at = 0;
  for (const KernelParameter& pointer : signature_.parameters) {
    if (!pointer.is_pointer) continue;
    const Pointer& tensor = pointers[at++];
    if (pointer.value_type != parameter.name || tensor.is_absent) continue;
    if (dtype.has_value() && *dtype != tensor.dtype)
      throw_type_error(fmt::format("kernel '{}': {} is {} {}, but tensor '{}' is {}", signature_.kernel, parameter.name,
                                   name(*dtype), source, pointer.name, name(tensor.dtype)));
    if (!dtype.has_value()) source = fmt::format("by tensor '{}'", pointer.name);
    dtype = tensor.dtype;
  }
  if (type_name.has_value()) return TypeName{*type_name};
  if (dtype.has_value()) return *dtype;
  const AttributeValue fallback = fallback_of(parameter);
  if (const auto* value = std::get_if<DType>(&fallback)) return *value;
  if (const auto* text = std::get_if<std::string>(&fallback)) return TypeName{*text};
  throw_value_error(fmt::format("kernel '{}' needs template parameter '{}', a type: a dtype such as {}='f32'",
                                signature_.kernel, parameter.name, parameter.name));
}

TemplateArgument KernelBinding::number_argument(const TemplateParameter& parameter, const Attributes& values) const {
  const bool is_boolean = parameter.kind == Kind::boolean;
  const AttributeValue* given = values.find(parameter.name);
  const AttributeValue fallback = fallback_of(parameter);
  if (is_none(given)) given = &fallback;
  if (is_none(given))
    throw_value_error(fmt::format("kernel '{}' needs template parameter '{}', {}{}", signature_.kernel, parameter.name,
                                  is_boolean ? "a boolean" : "an integer",
                                  parameter.fallback.empty()
                                      ? std::string()
                                      : fmt::format(" (its default, {}, is no plain number)", parameter.fallback)));
  const auto integer = integer_of(*given);
  if (!integer.has_value() || (is_boolean && *integer != 0 && *integer != 1))
    throw_type_error(fmt::format("kernel '{}': template parameter '{}' is {}, got {}", signature_.kernel,
                                 parameter.name, is_boolean ? "a boolean" : "an integer", to_string(*given)));
  if (is_boolean) return *integer == 1;
  return *integer;
}

const TemplateArgument* KernelBinding::argument_of(const std::string& type,
                                                   std::span<const TemplateArgument> arguments) const {
  for (std::size_t i = 0; i < signature_.template_parameters.size(); ++i)
    if (signature_.template_parameters[i].kind == Kind::type && signature_.template_parameters[i].name == type)
      return &arguments[i];
  return nullptr;
}

void KernelBinding::add_pointer(const KernelParameter& parameter, const Pointer& pointer,
                                std::span<const TemplateArgument> arguments, KernelLaunch& launch) const {
  std::string pointee;
  if (const TemplateArgument* argument = argument_of(parameter.value_type, arguments)) {
    if (!std::holds_alternative<DType>(*argument))
      throw_type_error(fmt::format("kernel '{}': {} is {}, which is no dtype, but tensor '{}' is {}", signature_.kernel,
                                   parameter.value_type, spell(*argument), parameter.name, name(pointer.dtype)));
    pointee = spell(*argument);
  } else if (parameter.value_type == "void") {
    pointee = "void";
  } else {
    const auto declared = spelled_dtype(parameter.value_type);
    if (!pointer.is_absent && declared != pointer.dtype)
      throw_type_error(fmt::format(
          "kernel '{}': parameter '{}' is declared as {}, which takes {}, but the tensor is {}", signature_.kernel,
          parameter.name, parameter.type, name(declared.value_or(DType::f32)), name(pointer.dtype)));
    pointee = full_spelling(parameter.value_type);
  }
  launch.parameter_types.push_back(fmt::format("{}{}*", parameter.is_const ? "const " : "", pointee));
  launch.arguments.add_tensor(pointer.tensor_index);
}

void KernelBinding::add_value(const KernelParameter& parameter, std::span<const TemplateArgument> arguments,
                              const Attributes& values, KernelLaunch& launch) const {
  const TemplateArgument* argument = argument_of(parameter.value_type, arguments);
  const auto* of_template = argument == nullptr ? nullptr : std::get_if<DType>(argument);
  if (argument != nullptr && of_template == nullptr)
    throw_type_error(fmt::format("kernel '{}': parameter '{}' is of type {}, which is {}: a call gives numbers only",
                                 signature_.kernel, parameter.name, parameter.value_type, spell(*argument)));
  const DType dtype = of_template != nullptr ? *of_template : spelled_dtype(parameter.value_type).value_or(DType::f32);
  const AttributeValue* given = values.find(parameter.name);
  const AttributeValue fallback = fallback_of(parameter);
  if (is_none(given)) given = &fallback;
  if (is_none(given))
    throw_value_error(
        fmt::format("kernel '{}' needs '{}', a {} passed by value", signature_.kernel, parameter.name, parameter.type));
  if (const Problem problem = add_as(dtype, *given, launch.arguments); !problem.empty()) {
    const std::string message = fmt::format("kernel '{}': '{}' is a {}, and {} {}", signature_.kernel, parameter.name,
                                            name(dtype), to_string(*given), problem);
    if (problem.starts_with("does not fit")) throw_value_error(message);
    throw_type_error(message);
  }
  launch.parameter_types.push_back(of_template != nullptr ? spell(*argument) : full_spelling(parameter.value_type));
}

}  // namespace kiln
