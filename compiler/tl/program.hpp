#pragma once

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/program.hpp"
#else
#include "compiler/tl/cpu/program.hpp"
#endif
