#include "registry/dispatch/recorded_plan.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "registry/dispatch/address_check.hpp"
#include "registry/dispatch/enqueue.hpp"
#include "registry/dispatch/matching_tensors.hpp"
#include "registry/dispatch/plan_steps.hpp"
#include "registry/plan/plan.hpp"
#include "runtime/kernel_node.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

bool is_same_kernel(const Plan::Step& a, const Plan::Step& b) {
  return a.loaded->kernel == b.loaded->kernel || a.loaded->artifact_key == b.loaded->artifact_key;
}

/// A call of an op in a graph.
class RecordedPlan final : public RecordedCall {
 public:
  RecordedPlan(std::shared_ptr<const Plan> plan, std::vector<TensorView> tensors, const CallPointers& data,
               Stream stream, std::vector<void*> nodes)
      : plan_(std::move(plan)), tensors_(std::move(tensors)), data_(data), stream_(stream), nodes_(std::move(nodes)) {}

  GraphCall describe() const override {
    const auto first_input = tensors_.begin() + plan_->num_outputs();
    GraphCall call{plan_->spec->name, "", {first_input, tensors_.end()}, {tensors_.begin(), first_input}};
    if (plan_->steps.empty()) return call;
    call.config = "variant " + plan_->report.variant;
    if (const std::string config = to_string(plan_->report.config); !config.empty()) call.config += ", " + config;
    return call;
  }

  void run() const override {
    if (!plan_->tables.empty()) {
      PlanTensors views;
      for (std::size_t i = 0; i < tensors_.size(); ++i) views[i] = &tensors_[i];
      check_addresses(*plan_, std::span(views.data(), tensors_.size()), stream_);
    }
    CallPointers data = data_;
    visit_steps(*plan_, data, [&](const Plan::Step& step, void** parameters) {
      step.loaded->kernel->launch(step.geometry, parameters, stream_);
    });
  }

  std::string difference(const RecordedCall& other) const override {
    const auto* call = dynamic_cast<const RecordedPlan*>(&other);
    const bool is_same_op = call != nullptr && call->plan_->spec == plan_->spec && call->plan_->device == plan_->device;
    if (is_same_op && std::ranges::equal(plan_->steps, call->plan_->steps, is_same_kernel)) return "";
    return to_string(other.describe()) + " where it was " + to_string(describe()) +
           (is_same_op ? ", which takes other kernels" : "");
  }

  std::shared_ptr<const RecordedCall> with_tensors(std::span<const TensorView> inputs,
                                                   std::span<const TensorView> outputs) const override {
    PlanTensors storage;
    const auto tensors = matching_tensors(*plan_, inputs, outputs, "recorded", storage);
    std::vector<TensorView> views;
    for (const TensorView* view : tensors) views.push_back(*view);
    CallPointers data = data_;  // the workspaces stay
    point_to_tensors(*plan_, tensors, data);
    return std::make_shared<RecordedPlan>(plan_, std::move(views), data, stream_, nodes_);
  }

  std::span<void* const> nodes() const noexcept override { return nodes_; }

  void write_to(void* executable, std::span<void* const> nodes) const override {
    CallPointers data = data_;
    std::size_t i = 0;
    visit_steps(*plan_, data, [&](const Plan::Step&, void** parameters) {
      if (nodes[i] != nullptr) set_kernel_node(executable, nodes[i], nodes_[i], parameters);
      ++i;
    });
  }

 private:
  std::shared_ptr<const Plan> plan_;
  std::vector<TensorView> tensors_;  ///< outputs first
  CallPointers data_;
  Stream stream_;
  std::vector<void*> nodes_;  ///< of each step
};

}  // namespace

void record_launch(Recording& recording, const Plan& plan, std::span<const TensorView* const> tensors, Stream stream) {
  refuse_check(plan);
  CallPointers data{};
  point_to_tensors(plan, tensors, data);
  Tensor workspace;  // its block serves the calls that follow on the stream
  if (plan.workspace_bytes > 0) {
    workspace = empty({plan.workspace_bytes}, DType::u8, stream);
    point_to_workspaces(plan, workspace.data(), data);
  }
  const auto turn = recording.lock_calls();
  std::vector<void*> nodes;
  if (stream.device.is_cuda())
    visit_steps(plan, data, [&](const Plan::Step& step, void** parameters) {
      step.loaded->kernel->launch(step.geometry, parameters, stream);
      const bool has_programs = std::ranges::find(step.geometry.grid, 0) == step.geometry.grid.end();
      nodes.push_back(has_programs ? last_kernel_node(stream) : nullptr);
    });
  std::vector<TensorView> views;
  for (const TensorView* view : tensors) views.push_back(*view);
  recording.add(
      std::make_shared<RecordedPlan>(plan.shared_from_this(), std::move(views), data, stream, std::move(nodes)));
}

}  // namespace kiln
