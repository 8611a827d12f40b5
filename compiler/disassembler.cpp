#include "compiler/disassembler.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "core/errors.hpp"
#include "core/subprocess.hpp"

namespace kiln {
namespace {

/// The disassemblers read files only.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<std::byte>& content) {
    path_ = (std::filesystem::temp_directory_path() / "kiln-XXXXXX.cubin").string();
    const int file = ::mkstemps(path_.data(), 6);
    if (file < 0)
      throw SystemError(
          fmt::format("cannot make a temporary file '{}': {}", path_, std::generic_category().message(errno)));
    ::close(file);
    std::ofstream stream(path_, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    stream.close();
    if (!stream) {
      ::unlink(path_.c_str());
      throw SystemError(fmt::format("cannot write the temporary file '{}'", path_));
    }
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::string disassemble(const Artifact& artifact) {
  if (artifact.kind != ArtifactKind::cubin)
    throw_not_implemented(fmt::format(
        "sass is shown of machine code for a GPU, and the artifact for {} is not that; name a target like sm_90a",
        to_string(artifact.target)));
  const TemporaryFile file(artifact.code);
  for (const std::string folder : {"", "/usr/local/cuda/bin/"}) {
    for (const auto& [program, option] :
         {std::pair{"cuobjdump", "--dump-sass"}, std::pair{"nvdisasm", "--print-code"}}) {
      const auto result = run_subprocess({folder + program, option, file.path()});
      if (!result) continue;
      if (result->exit_status != 0)
        throw DeviceError(folder + program, result->exit_status,
                          result->standard_error.empty() ? result->standard_output : result->standard_error);
      return result->standard_output;
    }
  }
  throw DeviceError(
      "disassembling", 0,
      "neither cuobjdump nor nvdisasm is on PATH or in /usr/local/cuda/bin; install the CUDA toolkit's cuobjdump "
      "(NVIDIA's package cuda-cuobjdump-<version>), or look at the ptx instead");
}

}  // namespace kiln
