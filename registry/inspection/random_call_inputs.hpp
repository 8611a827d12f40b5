#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.hpp"
#include "registry/plan/call.hpp"

namespace kiln {

struct RandomContents {
  std::span<const InputRange> ranges = {};  ///< of numbers, by input; else the spec's
  bool spoiled = false;                     ///< what the op skips stands here and there (OpSpec::spoil_inputs)
  Device addressed = Device::cpu();         ///< where the memory lies that addresses are drawn for
};

/// Fills a call's inputs on the CPU, of any strides, with random contents that the op can take; Tensor{} is one left
/// out. Numbers are drawn from their range, and what selects memory or work from the whole of what the call has
/// (InputSpec::selects): no work is skipped but what cannot be done (more tokens than slots), and what counts say.
/// Every caller that needs a call without having one draws it here: the command, the tuner's calls, tests.
/// Addresses are of new memory, zeros, which is there as long as what is returned. UsageError for a call that the op
/// refuses.
std::vector<Tensor> fill_random_inputs(const OpSpec& spec, const CallInputs& inputs, const Attributes& attributes,
                                       std::uint64_t seed, const RandomContents& contents = {});

/// The part of it for inputs that hold other than numbers.
std::vector<Tensor> fill_selecting_inputs(const Call& call, std::uint64_t seed, const RandomContents& contents = {});

}  // namespace kiln
