#pragma once

#include "ops/matmul/kernel_output.hpp"
#include "ops/matmul/kernel_rows.hpp"
#include "ops/matmul/kernel_thin.hpp"
#include "ops/matmul/kernel_tile.hpp"

#if defined(KILN_TARGET_CPU)
#include "ops/matmul/kernel_blocked.hpp"
#include "ops/matmul/kernel_inner.hpp"
#include "ops/matmul/kernel_outer.hpp"
#include "ops/matmul/kernel_stream.hpp"
#endif
