#pragma once

#include <string>
#include <vector>

namespace kiln {

/// NVIDIA's profiling library, libcupti, which is opened at run time and never closed: its threads go on.
struct CuptiLibrary {
  void* handle = nullptr;  ///< as from dlopen; null where none could be opened
  std::string problem;     ///< why not, with all places that were looked at
};

/// Where it may lie: what KILN_CUPTI_PATH says, a file or a folder; otherwise what the dynamic linker finds, then the
/// folders of the CUDA toolkit (CUDA_HOME, CUDA_PATH, /usr/local/cuda).
std::vector<std::string> cupti_candidates();

/// The first of `candidates` that loads. Of those without a folder one that the process has loaded already (torch's,
/// another profiler's) comes before all others: a second copy beside it would be refused by the driver.
CuptiLibrary open_cupti(const std::vector<std::string>& candidates);

}  // namespace kiln
