#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "autotune/tuning_entry.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/tuning_policy.hpp"

namespace kiln {

/// A config that the tuning database knows for a call.
struct TunedConfig {
  Config config;
  std::string source;  ///< "tuned", "tuned for 4096x4096, 4096x1024"
};
/// What a variant's config is asked of; empty: the default is taken.
using TunedLookup = std::function<std::optional<TunedConfig>(const Variant&)>;

/// Those of a call's attributes that its best config depends on (AttributeSpec::decides_speed).
Attributes deciding_attributes(const OpSpec& spec, const Attributes& attributes);

/// What a key says of layouts, after the attributes: ", layout[1]=(1, 4096)" for each tensor that is not dense and
/// row-major, ", host[1]" for one in host memory that a GPU reads: the bus asks for another config than the GPU's own
/// memory. nullptr for a tensor that is left out.
std::string layouts_text(std::span<const TensorView* const> tensors, Device device);

/// What a call is tuned under. Layouts that are not row-major are part of it: a transposed operand is another kernel in
/// all but name. The call's device is asked for its model and processors.
TuningKey tuning_key(const Call& call, const Variant& variant, const Target& target);

/// What a key says of a variant's sources: its kernel and everything that includes, and how the inputs of what was
/// measured came about.
const std::string& kernel_hash(const OpSpec& spec, const Variant& variant);

/// Looks a call up in the process's database, as `policy` says. Answers are checked against the variant's space; they
/// are of the same sources and the same space, which the key covers. It refers to the call.
TunedLookup tuned_lookup(const Call& call, const Target& target, TuningPolicy policy);

}  // namespace kiln
