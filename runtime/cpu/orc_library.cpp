#include "runtime/cpu/orc_library.hpp"

#include "core/plugin.hpp"

namespace kiln {
namespace {

constexpr const char* kLibrary = "libkiln-orc.so";

}  // namespace

LinkFunction orc_link_function() {
  // A throw leaves the static unset, so the next call tries again.
  static const auto function = reinterpret_cast<LinkFunction>(open_plugin_symbol(kLibrary, kLinkFunctionName));
  return function;
}

std::string orc_problem() {
  if (!find_plugin(kLibrary).empty()) return {};
  return std::string(kLibrary) +
         " is neither beside this binary nor in ../lib from there; build Kiln with -DKILN_CPU=ON and install it with "
         "libkiln.so";
}

}  // namespace kiln
