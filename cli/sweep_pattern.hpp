#pragma once

#include <cstdint>
#include <string>

#include "cli/call_inputs.hpp"

namespace kiln::cli {

/// A call with one extent left open, by a letter in its shapes or attributes.
struct SweepPattern {
  CallText call;
  std::string variable;

  /// The call with a number in the letter's place.
  CallText at(std::int64_t value) const;
};

/// The pattern that the command line gives, or where it gives no shapes one that the op takes: N elements, N rows of
/// 4096, a matrix of N by N, or an example of the op's own with N in place of its first extent. `variable` is the one
/// that --sweep names; empty: the letter in the shapes. UsageError(value) for shapes without the letter or with
/// several, and for an op that no pattern fits.
SweepPattern sweep_pattern(const OpSpec& spec, const CallText& call, const std::string& variable);

/// "--shape Nx4096 --shape 4096 --attr dim=1", for people.
std::string to_string(const SweepPattern& pattern);

}  // namespace kiln::cli
