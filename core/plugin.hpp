#pragma once

#include <string>

namespace kiln {

/// Path of one of Kiln's own shared objects, for example "libkiln-clang.so": beside the binary that holds this code, or
/// in ../lib from there. Empty when it is in neither; dlopen's search path may still have it.
std::string find_plugin(const std::string& file);

/// Opens it, with its symbols kept from everyone else, and returns the address of `symbol`. It stays open. DeviceError
/// saying where it was looked for.
void* open_plugin_symbol(const std::string& file, const std::string& symbol);

}  // namespace kiln
