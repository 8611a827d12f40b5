#include "compiler/stub.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"

namespace kiln {
namespace {

/// A launch passes pointers to parameters with no types, so a kernel that declares more of them than the op passes
/// would read past their end, and one that declares fewer would take them for others.
std::string parameter_check(const CompileRequest& request) {
  const std::string count = std::to_string(request.num_parameters);
  return "template <typename Kernel>\nstruct kiln_signature;\n"
         "template <typename... Parameters>\n"
         "struct kiln_signature<void (*)(Parameters...)> {\n"
         "  static constexpr int num_parameters = sizeof...(Parameters);\n};\n"
         "static_assert(kiln_signature<decltype(&" +
         instance_name(request) + ")>::num_parameters == " + count +
         ",\n              \"the op launches this kernel with " + count +
         (request.num_parameters == 1 ? " parameter" : " parameters") +
         ", and the kernel declares another number of them\");\n";
}

/// The types a kernel declares against those that the call passes. Each parameter has a template of its own, so that
/// the errors of both compilers hold the declared type: Clang spells out the comparison, NVRTC the instance.
std::string type_check(const CompileRequest& request) {
  std::string text =
      "template <typename A, typename B>\ninline constexpr bool kiln_is_same = false;\n"
      "template <typename A>\ninline constexpr bool kiln_is_same<A, A> = true;\n"
      "template <int kIndex, typename... Types>\nstruct kiln_nth {\n  using type = void;\n};\n"
      "template <typename First, typename... Rest>\nstruct kiln_nth<0, First, Rest...> {\n  using type = First;\n};\n"
      "template <int kIndex, typename First, typename... Rest>\n  requires(kIndex > 0)\n"
      "struct kiln_nth<kIndex, First, Rest...> : kiln_nth<kIndex - 1, Rest...> {};\n"
      "template <typename Kernel>\nstruct kiln_types;\n"
      "template <typename... Types>\nstruct kiln_types<void (*)(Types...)> {\n"
      "  template <int kIndex>\n  using at = typename kiln_nth<kIndex, Types...>::type;\n};\n";
  for (std::size_t i = 0; i < request.parameter_types.size(); ++i)
    text += fmt::format(
        "template <typename Declared>\nstruct kiln_parameter_{0} {{\n"
        "  static_assert(kiln_is_same<Declared, {1}>,\n                \"parameter {0} of the kernel is passed as {1}, "
        "and declared as another type: kiln_parameter_{0}<the declared one>\");\n"
        "  static constexpr bool is_right = true;\n}};\n"
        "static_assert(kiln_parameter_{0}<kiln_types<decltype(&{2})>::at<{3}>>::is_right);\n",
        i + 1, request.parameter_types[i], instance_name(request), i);
  return text;
}

}  // namespace

std::string stub(const CompileRequest& request) {
  const std::string& path = request.source.path;
  if (path.empty() || path.find_first_of("\"\\\n\r") != std::string::npos)
    throw_value_error("kernel source path '" + path +
                      "' cannot be included: it must not be empty or hold quotes, backslashes or line breaks");
  std::string text = request.debug ? "#define KILN_DEBUG 1\n" : "";
  text += "#include \"" + path + "\"\n";
  if (request.num_parameters >= 0) text += parameter_check(request);
  if (!request.parameter_types.empty()) text += type_check(request);
  if (request.target.type == DeviceType::cpu)
    text += std::string("extern \"C\" void ") + kCpuEntry +
            "(void* const* parameters, const kiln::tl::int64_t* grid, kiln::tl::int64_t begin,\n"
            "                           kiln::tl::int64_t end) {\n"
            "  kiln::tl::cpu::run_programs<&" +
            instance_name(request) + ">(parameters, grid, begin, end);\n}\n";
  return text;
}

}  // namespace kiln
