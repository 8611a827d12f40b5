#pragma once

namespace kiln::cuda {

/// The primary context of a device, which torch and the CUDA runtime use too; retained on first use and for the life of
/// the process. DeviceError.
void* primary_context(int ordinal);

/// Makes a device's primary context current for this thread while it lives. Costs one look at the current context when
/// it is current already. Never throws: where the driver refuses, the call that needs the context says so.
class CurrentContext {
 public:
  CurrentContext(void* context, int ordinal) noexcept;
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  void* previous_;
  bool must_restore_;
};

}  // namespace kiln::cuda
