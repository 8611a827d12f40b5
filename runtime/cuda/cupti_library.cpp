#include "runtime/cuda/cupti_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <system_error>

#include "core/environment.hpp"

namespace kiln {
namespace {

constexpr const char* kSonames[] = {"libcupti.so.13", "libcupti.so.12"};
/// Under the toolkit's folder.
constexpr const char* kToolkitFolders[] = {"lib64", "extras/CUPTI/lib64", "lib"};

void add_folder(std::vector<std::string>& candidates, const std::filesystem::path& folder) {
  for (const char* soname : kSonames) candidates.push_back((folder / soname).string());
}

}  // namespace

std::vector<std::string> cupti_candidates() {
  std::vector<std::string> candidates;
  if (const auto path = environment("KILN_CUPTI_PATH")) {
    std::error_code error;
    if (std::filesystem::is_directory(*path, error))
      add_folder(candidates, *path);
    else
      candidates.push_back(*path);
    return candidates;
  }
  candidates.assign(std::begin(kSonames), std::end(kSonames));
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const auto toolkit = environment(variable))
      for (const char* folder : kToolkitFolders) add_folder(candidates, std::filesystem::path(*toolkit) / folder);
  for (const char* folder : kToolkitFolders) add_folder(candidates, std::filesystem::path("/usr/local/cuda") / folder);
  return candidates;
}

CuptiLibrary open_cupti(const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates)
    if (candidate.find('/') == std::string::npos)
      if (void* const handle = dlopen(candidate.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD)) return {handle, {}};
  for (const std::string& candidate : candidates)
    if (void* const handle = dlopen(candidate.c_str(), RTLD_LAZY | RTLD_LOCAL)) return {handle, {}};
  return {
      nullptr,
      fmt::format("libcupti was not found; looked for {}. Install CUPTI of the driver's CUDA version (it comes "
                  "with the CUDA toolkit, and as pip's nvidia-cuda-cupti), or set KILN_CUPTI_PATH to its libcupti.so "
                  "or to the folder that holds it",
                  fmt::join(candidates, ", "))};
}

}  // namespace kiln
