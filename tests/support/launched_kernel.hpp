#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/errors.hpp"
#include "core/launch.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/validation.hpp"
#include "tests/support/op_case.hpp"

/// Kernels that calls would launch on GPUs, which need not be here.
namespace kiln::test {

/// What is compiled, and what its launch passes.
struct LaunchedKernel {
  const Variant* variant = nullptr;  ///< of the op's spec
  CompileRequest request;
  ArgumentTemplate arguments;
};

/// Those of each variant that serves the call, the one that the call takes first, with its default config; none for an
/// example that the op refuses.
inline std::vector<LaunchedKernel> kernels_of_all_variants(const OpSpec& spec, const Example& example,
                                                           const Target& target, bool overlap_previous = false) {
  const std::vector<TensorView> inputs = views_of(example, Device::cuda(0));
  std::vector<LaunchedKernel> kernels;
  try {
    Call call = validated_call(spec, inputs, example.attributes, {.seen_on = Device::cuda(0)});
    OpSpec alone = spec;
    call.spec = &alone;
    for (const Variant& variant : spec.variants) {
      if (!variant.serves(call.seen_by_spec(), target)) continue;
      alone.variants = {variant};
      const Choice choice = choose(call, target, nullptr, {}, overlap_previous);
      for (std::size_t i = 0; i < choice.requests.size(); ++i)
        kernels.push_back({&variant, choice.requests[i], choice.plan.launches[i].arguments});
    }
  } catch (const UsageError&) {
    kernels.clear();
  }
  return kernels;
}

/// For each parameter, which memory's address it carries, itself or in a tensor map, as ArgumentTemplate::bind counts;
/// -1: none.
inline std::vector<int> memory_of_parameters(const ArgumentTemplate& arguments) {
  std::array<void*, kMaxArguments> data{}, parameters{};
  arguments.bind(data.data(), parameters.data());
  std::vector<int> memory;
  for (int i = 0; i < arguments.size(); ++i) {
    const auto slot = std::find_if(data.begin(), data.end(), [&](void*& pointer) { return parameters[i] == &pointer; });
    memory.push_back(slot == data.end() ? -1 : static_cast<int>(slot - data.begin()));
  }
  for (const ArgumentTemplate::TensorMapSlot& map : arguments.tensor_maps())
    memory[static_cast<std::size_t>(map.parameter_index)] = map.pointer_index;
  return memory;
}

/// The call's memory that a kernel cannot reach, since its PTX names no parameter that carries its address: "tensor 2",
/// outputs first, or "workspace 0". So it shows where a compiler took one tensor for another.
inline std::vector<std::string> unreached_memory(const ArgumentTemplate& arguments, std::string_view ptx) {
  constexpr std::string_view kEntry = ".entry ";
  const std::string_view kernel = ptx.substr(ptx.find(kEntry) + kEntry.size());
  const std::string_view body = kernel.substr(kernel.find('{'));
  const std::string parameter = std::string(kernel.substr(0, kernel.find('('))) + "_param_";
  const std::vector<int> memory = memory_of_parameters(arguments);
  std::set<int> unreached(memory.begin(), memory.end());
  unreached.erase(-1);
  for (std::size_t at = body.find(parameter); at != std::string_view::npos; at = body.find(parameter, at + 1)) {
    const std::string_view number = body.substr(at + parameter.size());
    std::size_t index = 0;
    std::from_chars(number.data(), number.data() + number.size(), index);
    unreached.erase(memory.at(index));
  }
  std::vector<std::string> names;
  for (const int index : unreached)
    names.push_back(index < kMaxTensors ? fmt::format("tensor {}", index)
                                        : fmt::format("workspace {}", index - kMaxTensors));
  return names;
}

}  // namespace kiln::test
