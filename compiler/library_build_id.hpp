#pragma once

#include <string>

namespace kiln {

/// The linker's build id (hexadecimal) of the loaded shared object that contains `address`; its file size ("109338064
/// bytes") where the linker left none. Tells apart two builds of a library that report one version, whatever their path
/// or age. Empty when `address` is in no shared object.
std::string library_build_id(const void* address);

}  // namespace kiln
