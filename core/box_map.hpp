#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/parameter_expression.hpp"

namespace kiln {

class ArgumentTemplate;

/// Boxes that a kernel's pipeline fetches by the copy engine (core/box_map_table.hpp).
struct BoxForm {
  std::string table;  ///< symbol of the BoxMapTable in the kernel's code
  std::int32_t lines = 0, elements = 0, element_bytes = 0;
  /// float that tf32 products read as it comes: to nearest, as wgmma itself would cut it off. Not where a kernel also
  /// reads such tiles as what they are.
  bool rounds_to_tf32 = false;
  friend bool operator==(const BoxForm&, const BoxForm&) = default;
};
/// One pipeline's load of such boxes. The distance of lines depends on the launch.
struct BoxLoad {
  BoxForm form;
  ParameterExpression line_bytes;
  bool follows_stores = false;  ///< threads may have written global memory before one of this form, which it may read
  friend bool operator==(const BoxLoad&, const BoxLoad&) = default;
};
/// What the kernel is to be given a map for.
struct BoxMap {
  BoxForm form;
  std::int64_t line_bytes = 0;
  bool follows_stores = false;
};

/// The maps for `loads` with these arguments, as far as they follow from them.
std::vector<BoxMap> box_maps(std::span<const BoxLoad> loads, const ArgumentTemplate& arguments);

}  // namespace kiln
