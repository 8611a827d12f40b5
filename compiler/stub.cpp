#include "compiler/stub.hpp"

#include "core/errors.hpp"

namespace kiln {

std::string stub(const CompileRequest& request) {
  const std::string& path = request.source.path;
  if (path.empty() || path.find_first_of("\"\\\n\r") != std::string::npos)
    throw_value_error("kernel source path '" + path +
                      "' cannot be included: it must not be empty or hold quotes, backslashes or line breaks");
  std::string text = "#include \"" + path + "\"\n";
  if (request.target.type == DeviceType::cpu)
    text += std::string("extern \"C\" void ") + kCpuEntry +
            "(void* const* parameters, const kiln::tl::int64_t* grid, kiln::tl::int64_t begin,\n"
            "                           kiln::tl::int64_t end) {\n"
            "  kiln::tl::cpu::run_programs<&" +
            instance_name(request) + ">(parameters, grid, begin, end);\n}\n";
  return text;
}

}  // namespace kiln
