#include "compiler/stub.hpp"

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

}  // namespace

std::string stub(const CompileRequest& request) {
  const std::string& path = request.source.path;
  if (path.empty() || path.find_first_of("\"\\\n\r") != std::string::npos)
    throw_value_error("kernel source path '" + path +
                      "' cannot be included: it must not be empty or hold quotes, backslashes or line breaks");
  std::string text = request.debug ? "#define KILN_DEBUG 1\n" : "";
  text += "#include \"" + path + "\"\n";
  if (request.num_parameters >= 0) text += parameter_check(request);
  if (request.target.type == DeviceType::cpu)
    text += std::string("extern \"C\" void ") + kCpuEntry +
            "(void* const* parameters, const kiln::tl::int64_t* grid, kiln::tl::int64_t begin,\n"
            "                           kiln::tl::int64_t end) {\n"
            "  kiln::tl::cpu::run_programs<&" +
            instance_name(request) + ">(parameters, grid, begin, end);\n}\n";
  return text;
}

}  // namespace kiln
