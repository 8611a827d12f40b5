#include "registry/plan/tuning_scope.hpp"

#include <utility>

namespace kiln {
namespace {

thread_local bool is_tuning = false;

}  // namespace

TuningScope::TuningScope() noexcept : outer_(std::exchange(is_tuning, true)) {}

TuningScope::~TuningScope() {
  is_tuning = outer_;
}

bool inside_tuning() noexcept {
  return is_tuning;
}

}  // namespace kiln
