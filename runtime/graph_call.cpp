#include "runtime/graph_call.hpp"

namespace kiln {
namespace {

std::string joined(const std::vector<TensorView>& views) {
  std::string text;
  for (const TensorView& view : views) text += (text.empty() ? "" : ", ") + describe(view);
  return text;
}

}  // namespace

std::string to_string(const GraphCall& call) {
  std::string text = call.op + "(" + joined(call.inputs) + ")";
  if (!call.outputs.empty()) text += " -> " + joined(call.outputs);
  if (!call.config.empty()) text += " [" + call.config + "]";
  return text;
}

}  // namespace kiln
