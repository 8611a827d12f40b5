#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::cli {

/// An op call as the command line spells it.
struct CallText {
  std::string op;
  std::vector<std::string> shapes;
  std::vector<std::string> dtypes;
  std::vector<std::string> attributes;
  std::vector<std::string> pinned = {};  ///< names of inputs that are to lie in page-locked host memory
};

/// Shapes and dtypes of the op's inputs. One shape or dtype serves all inputs, otherwise there is one per input; with
/// one dtype, an input that is bool in all of the op's examples beside inputs that are not (where's condition) stays
/// bool, and an input that does not take it gets the first of its own. Without a dtype: f32 where the op takes it.
/// Where the op refuses its optional inputs (an attribute stands for them), they are left out. An op without inputs has
/// none. UsageError(value) for malformed text and counts that do not fit.
std::vector<TensorMeta> input_metas(const OpSpec& spec, const CallText& call, const Attributes& attributes);

/// Dense views without memory, enough for a spec to look at; none for an input that is left out.
std::vector<std::optional<TensorView>> placeholder_views(const std::vector<TensorMeta>& metas, Device device);

/// placeholder_views of a call on `device`, of which those that `call` names as pinned are the host's. On the CPU all
/// memory is. UsageError(value) for a name that the op does not have, or whose input must be on the device.
std::vector<std::optional<TensorView>> call_views(const OpSpec& spec, const CallText& call,
                                                  const std::vector<TensorMeta>& metas, Device device);

/// Whether `call` names input number `input` as pinned.
bool is_pinned(const OpSpec& spec, const CallText& call, std::size_t input);

/// The name of input number `input` of a call; a repeated one has the last name.
std::string input_name(const OpSpec& spec, std::size_t input);

/// The names of what a call of the op returns: its outputs, or the inputs that it changes.
std::vector<std::string> result_names(const OpSpec& spec);

/// "x f32 (4, 4), other bf16 (4)".
std::string describe_inputs(const OpSpec& spec, const std::vector<TensorMeta>& metas);

/// "add(input, other=..., *, alpha=1) -> out".
std::string signature(const OpSpec& spec);

/// "dim=0,1": as --attr reads it, without what a shell would take apart.
std::string attribute_option(const Attributes::Entry& attribute);

/// The options that call an op like one of its examples: "kiln run add --shape 4096x4096 --dtype f32".
std::string example_command(const OpSpec& spec, const Example& example);

}  // namespace kiln::cli
