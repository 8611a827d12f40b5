#include "registry/profiling/profiled_op.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "registry/plan/plan.hpp"

namespace kiln {
namespace {

std::string shape_text(const Plan::TensorSlot& tensor) {
  if (tensor.absent) return "-";
  return tensor.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(tensor.shape.span(), "x"));
}

/// "a, b -> c": inputs, then outputs, which come first in a plan.
std::string join_call(const std::vector<std::string>& texts, std::size_t num_outputs) {
  const auto outputs_end = texts.begin() + static_cast<std::ptrdiff_t>(num_outputs);
  std::string text = fmt::format("{}", fmt::join(outputs_end, texts.end(), ", "));
  if (num_outputs > 0)
    text += fmt::format("{}-> {}", text.empty() ? "" : " ", fmt::join(texts.begin(), outputs_end, ", "));
  return text;
}

}  // namespace

ProfiledOp describe_plan(const Plan& plan) {
  ProfiledOp described;
  described.op = plan.spec->name;
  described.config = plan.report.config.empty() ? "" : to_string(plan.report.config);
  described.variant = plan.report.variant;
  described.device = plan.device;
  std::vector<std::string> shapes, dtypes;
  bool is_uniform = true;
  for (const Plan::TensorSlot& tensor : plan.tensors) {
    shapes.push_back(shape_text(tensor));
    dtypes.push_back(tensor.absent ? "-" : std::string(name(tensor.dtype)));
    is_uniform &= tensor.absent || tensor.dtype == plan.tensors.front().dtype;
  }
  described.shapes = join_call(shapes, plan.outputs.size());
  if (plan.tensors.empty()) return described;
  described.dtypes =
      is_uniform ? std::string(name(plan.tensors.front().dtype)) : join_call(dtypes, plan.outputs.size());
  const bool has_inputs = plan.tensors.size() > plan.outputs.size();
  described.dtype = plan.tensors[has_inputs ? plan.outputs.size() : 0].dtype;
  return described;
}

}  // namespace kiln
