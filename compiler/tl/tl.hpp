#pragma once

/// The tile language: what a kernel includes (as <kiln/tl.hpp>). Names and semantics are triton.language's.
/// Self-contained: no CUDA or system header. docs/tile-language.md is the manual.

#include "compiler/tl/affine.hpp"
#include "compiler/tl/arithmetic.hpp"
#include "compiler/tl/arrangement.hpp"
#include "compiler/tl/atomic.hpp"
#include "compiler/tl/broadcast.hpp"
#include "compiler/tl/cast.hpp"
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

namespace tl = kiln::tl;
