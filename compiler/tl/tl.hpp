#pragma once

/// The tile language: what a kernel includes (as <kiln/tl.hpp>). Names and semantics are triton.language's.
/// Self-contained: no CUDA or system header. docs/tile-language.md is the manual.

#if defined(KILN_TARGET_CUDA)
// The headers' own, which would stand before what is said of a kernel that does not compile: loops that no turn is left
// of, tiles whose elements are set by their registers, references to tiles that a layout does not need.
#pragma nv_diagnostic push
#pragma nv_diag_suppress 128, 549, 836
#endif

#include "compiler/tl/affine.hpp"
#include "compiler/tl/arithmetic.hpp"
#include "compiler/tl/arrangement.hpp"
#include "compiler/tl/atomic.hpp"
#include "compiler/tl/broadcast.hpp"
#include "compiler/tl/cast.hpp"
#include "compiler/tl/compound_assignment.hpp"
#include "compiler/tl/cover.hpp"
#include "compiler/tl/debug.hpp"
#include "compiler/tl/dot.hpp"
#include "compiler/tl/mask.hpp"
#include "compiler/tl/math.hpp"
#include "compiler/tl/memory.hpp"
#include "compiler/tl/number.hpp"
#include "compiler/tl/pipeline.hpp"
#include "compiler/tl/program.hpp"
#include "compiler/tl/random.hpp"
#include "compiler/tl/reduce.hpp"
#include "compiler/tl/scan.hpp"
#include "compiler/tl/shape.hpp"
#include "compiler/tl/target.hpp"
#include "compiler/tl/tile.hpp"
#include "compiler/tl/trans.hpp"
#include "compiler/tl/tuple.hpp"

#if defined(KILN_TARGET_CUDA)
#pragma nv_diagnostic pop
#endif

namespace tl = kiln::tl;
