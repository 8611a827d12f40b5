#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/iteration.hpp"
#include "ops/attention/kernel_form.hpp"

namespace kiln::ops {

/// The block of queries and the head of a program, of `blocks` for each head. The last queries, which by causal masks
/// see most, are begun first: what is begun last ends all, and should be short.
struct BlockOfHead {
  tl::int64_t block, blocks, head;
};

template <AttentionForm FORM>
KILN_DEVICE BlockOfHead block_of_program(const AttentionIteration& it) {
  const tl::int64_t program = tl::program_id(0), programs = tl::num_programs(0);
  if constexpr (FORM.has_high) {
    const int number = static_cast<int>(program), together = it.heads_together;
    const int turn = number / together, blocks = static_cast<int>(programs) / together;
    return {blocks - 1 - turn, blocks, it.first_head + tl::program_id(1) * together + (number - turn * together)};
  } else {
    return {programs - 1 - program, programs, it.first_head + tl::program_id(1)};
  }
}

}  // namespace kiln::ops
