#include "core/box_map.hpp"

#include "core/launch.hpp"

namespace kiln {

std::vector<BoxMap> box_maps(std::span<const BoxLoad> loads, const ArgumentTemplate& arguments) {
  std::vector<BoxMap> maps;
  for (const BoxLoad& load : loads)
    if (const auto line_bytes = load.line_bytes.evaluate([&](int index) { return arguments.value(index); }))
      maps.push_back({load.form, *line_bytes, load.follows_stores});
  return maps;
}

}  // namespace kiln
