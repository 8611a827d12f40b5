#include "compiler/stub.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <variant>

#include "core/errors.hpp"

namespace kiln {
namespace {

// The checks below leave nothing in a kernel that passes them. NVRTC keeps each constant of a template that is
// instantiated, used or not, in the machine code, so those that have constants are instantiated only to say what is
// wrong.

std::string count_message(const CompileRequest& request) {
  return fmt::format("\"the op launches this kernel with {} {}, and the kernel declares another number of them\"",
                     request.num_parameters, request.num_parameters == 1 ? "parameter" : "parameters");
}

/// A launch passes pointers to parameters with no types, so a kernel that declares more of them than the op passes
/// would read past their end, and one that declares fewer would take them for others.
std::string parameter_check(const CompileRequest& request) {
  return fmt::format(
      "template <typename Kernel>\nstruct kiln_signature;\n"
      "template <typename... Declared>\nstruct kiln_signature<void (*)(Declared...)> {{\n"
      "  static_assert(sizeof...(Declared) == {}, {});\n}};\n"
      "static_assert(sizeof(kiln_signature<decltype(&{})>) > 0);\n",
      request.num_parameters, count_message(request), instance_name(request));
}

/// The types a kernel declares against those that the call passes: the same two types of function, or else each
/// parameter by itself. Each has a template of its own, so that the errors of both compilers hold the declared type:
/// Clang spells out the comparison, NVRTC the instance.
std::string type_check(const CompileRequest& request) {
  std::string text =
      "template <typename A, typename B>\nstruct kiln_same {\n  static constexpr bool value = false;\n};\n"
      "template <typename A>\nstruct kiln_same<A, A> {\n  static constexpr bool value = true;\n};\n"
      "template <int kIndex, typename... Types>\nstruct kiln_nth {\n  using type = void;\n};\n"
      "template <typename First, typename... Rest>\nstruct kiln_nth<0, First, Rest...> {\n  using type = First;\n};\n"
      "template <int kIndex, typename First, typename... Rest>\n  requires(kIndex > 0)\n"
      "struct kiln_nth<kIndex, First, Rest...> : kiln_nth<kIndex - 1, Rest...> {};\n";
  std::string sizes;
  for (std::size_t i = 0; i < request.parameter_types.size(); ++i) {
    text += fmt::format(
        "template <typename Declared>\nstruct kiln_parameter_{0} {{\n"
        "  static_assert(kiln_same<Declared, {1}>::value,\n                \"parameter {0} of the kernel is passed as "
        "{1}, and declared as another type: kiln_parameter_{0}<the declared one>\");\n}};\n",
        i + 1, request.parameter_types[i]);
    sizes += fmt::format("  kiln_parameter_{0}<typename kiln_nth<{1}, Declared...>::type> parameter_{0};\n", i + 1, i);
  }
  text += fmt::format(
      "template <typename Kernel>\nstruct kiln_difference;\n"
      "template <typename... Declared>\nstruct kiln_difference<void (*)(Declared...)> {{\n{}{}}};\n",
      request.num_parameters < 0 ? ""
                                 : fmt::format("  static_assert(sizeof...(Declared) == {}, {});\n",
                                               request.num_parameters, count_message(request)),
      sizes);
  return text + fmt::format(
                    "template <typename Declared, typename Passed>\nstruct kiln_signature : kiln_difference<Declared> "
                    "{{}};\ntemplate <typename Same>\nstruct kiln_signature<Same, Same> {{}};\n"
                    "static_assert(sizeof(kiln_signature<decltype(&{}), void (*)({})>) > 0);\n",
                    instance_name(request), fmt::join(request.parameter_types, ", "));
}

/// What designated initialisers let pass without a word: a field that the op leaves out would be zero, so no struct may
/// take one value more than it is given; a number too large for its field would be cut off by NVRTC, with a warning.
std::string field_check(const CompileRequest& request) {
  std::string text;
  for (const TemplateArgument& argument : request.template_arguments) {
    const auto* value = std::get_if<StructValue>(&argument);
    if (value == nullptr) continue;
    text += fmt::format("static_assert(!kiln_takes<{}", value->type);
    for (std::size_t i = 0; i <= value->fields.size(); ++i) text += ", kiln_anything";
    text += fmt::format(">,\n              \"the op gives {} of {}'s fields, and the struct has more\");\n",
                        value->fields.size(), value->type);
    for (const StructValue::Field& field : value->fields)
      if (const auto* number = std::get_if<std::int64_t>(&field.value))
        text += fmt::format("static_assert(kiln_holds<decltype({0}::{1})>({2}), \"{1} of {0} cannot hold {2}\");\n",
                            value->type, field.name, spell(*number));
  }
  if (text.empty()) return text;
  return "struct kiln_anything {\n  template <typename T>\n  operator T() const;\n};\n"
         "template <typename Struct, typename... Values>\nconcept kiln_takes = requires { Struct{Values{}...}; };\n"
         "template <typename Field>\nconstexpr bool kiln_holds(long long number) {\n"
         "  return static_cast<long long>(static_cast<Field>(number)) == number;\n}\n" +
         text;
}

}  // namespace

std::string stub(const CompileRequest& request) {
  const std::string& path = request.source.path;
  if (path.empty() || path.find_first_of("\"\\\n\r") != std::string::npos)
    throw_value_error("kernel source path '" + path +
                      "' cannot be included: it must not be empty or hold quotes, backslashes or line breaks");
  std::string text = request.debug ? "#define KILN_DEBUG 1\n" : "";
  text += "#include \"" + path + "\"\n";
  text += field_check(request);
  if (!request.parameter_types.empty())
    text += type_check(request);
  else if (request.num_parameters >= 0)
    text += parameter_check(request);
  if (request.target.type == DeviceType::cpu)
    text += std::string("extern \"C\" void ") + kCpuEntry +
            "(void* const* parameters, const kiln::tl::int64_t* grid, kiln::tl::int64_t begin,\n"
            "                           kiln::tl::int64_t end) {\n"
            "  kiln::tl::cpu::run_programs<&" +
            instance_name(request) + ">(parameters, grid, begin, end);\n}\n";
  return text;
}

}  // namespace kiln
