#include "core/plugin.hpp"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "core/errors.hpp"

namespace kiln {
namespace {

/// The folder of the binary that this file was linked into: libkiln.so, or a test that links the layers statically.
std::filesystem::path own_folder() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&find_plugin), &own) == 0 || own.dli_fname == nullptr) return {};
  std::error_code error;
  // A main program's dli_fname is argv[0], which says nothing about where it lies when the shell found it on PATH.
  std::filesystem::path binary = own.dli_fname;
  if (!binary.has_parent_path()) binary = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path resolved = std::filesystem::canonical(binary, error);
  return error ? std::filesystem::path{} : resolved.parent_path();
}

std::array<std::filesystem::path, 2> search_folders() {
  const std::filesystem::path folder = own_folder();
  return {folder, (folder / ".." / "lib").lexically_normal()};
}

}  // namespace

std::string find_plugin(const std::string& file) {
  for (const std::filesystem::path& folder : search_folders()) {
    std::error_code error;
    if (!folder.empty() && std::filesystem::is_regular_file(folder / file, error)) return (folder / file).string();
  }
  return {};
}

void* open_plugin_symbol(const std::string& file, const std::string& symbol) {
  const std::string path = find_plugin(file);
  void* library = dlopen(path.empty() ? file.c_str() : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    const auto folders = search_folders();
    throw DeviceError("opening " + file, 0,
                      std::string(reason != nullptr ? reason : "unknown reason") + "; looked in " +
                          folders[0].string() + ", " + folders[1].string() +
                          " and the loader's path. It is built with -DKILN_CPU=ON and belongs beside libkiln.so");
  }
  void* address = dlsym(library, symbol.c_str());
  if (address == nullptr)
    throw DeviceError(
        "opening " + file, 0,
        "it has no symbol '" + symbol + "', so it comes from another version of Kiln; build both together");
  return address;
}

}  // namespace kiln
