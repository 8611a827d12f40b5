// The scanner of kernels' declarations: a signature that the text bears out, or a UsageError.
#include <algorithm>
#include <string>

#include "compiler/kernel_signature.hpp"
#include "core/errors.hpp"
#include "tests/fuzz/fuzz_target.hpp"

using kiln::fuzz::require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(kiln::fuzz::text_of(data, size));
  try {
    const kiln::KernelSignature signature = kiln::kernel_signature({"fuzz.hpp", text, {}});
    require(!signature.kernel.empty(), "a kernel has a name");
    const std::string name = signature.kernel.substr(signature.kernel.rfind(':') + 1);
    require(text.find(name) != std::string::npos, "a kernel's name stands in the text");
    require(signature.line >= 1 && signature.line <= 1 + std::ranges::count(text, '\n'), "its line is one of the text");
    for (const kiln::KernelParameter& parameter : signature.parameters) {
      require(!parameter.name.empty() && !parameter.type.empty(), "a parameter has a name and a type");
      kiln::spelled_dtype(parameter.value_type);
      kiln::full_spelling(parameter.value_type);
    }
    // The kernel by its name is the same one.
    require(kiln::kernel_signature({"fuzz.hpp", text, {}}, signature.kernel).line == signature.line,
            "a kernel is found by its name");
  } catch (const kiln::UsageError&) {
  }
  return 0;
}
