#pragma once

namespace kiln {

/// Marks its thread as inside a tuning while it lives, whose callbacks may call ops: those must not wait for it to end,
/// and no profile takes them down.
class TuningScope {
 public:
  TuningScope() noexcept;
  ~TuningScope();
  TuningScope(const TuningScope&) = delete;
  TuningScope& operator=(const TuningScope&) = delete;

 private:
  const bool outer_;
};

/// Whether this thread is inside one.
bool inside_tuning() noexcept;

}  // namespace kiln
