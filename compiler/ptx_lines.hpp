#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// The instructions that one line of a kernel became in PTX, each as often as it stands there, not as it runs.
struct LineInstructions {
  std::string file;  ///< its path, as the compiler knows it
  int line = 0;      ///< 0, and no file: what no line is to blame for
  int all = 0;
  int shared_loads = 0, shared_stores = 0;  ///< by threads: changes of layout, reductions, tiles without a pipeline
  int shuffles = 0;
  int barriers = 0;  ///< of threads, and waits for those in memory
  int global_loads = 0, global_stores = 0;
  int copies = 0;    ///< to shared memory in the background
  int products = 0;  ///< of tensor cores
  int local_accesses = 0;
  friend bool operator==(const LineInstructions&, const LineInstructions&) = default;
};

/// Of PTX that names lines (-lineinfo): instructions by file and line. What was inlined counts at the innermost line
/// that led to it and does not belong to the tile language.
std::vector<LineInstructions> instructions_by_line(std::string_view ptx);

}  // namespace kiln
