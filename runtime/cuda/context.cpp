#include "runtime/cuda/context.hpp"

#include <mutex>
#include <vector>

#include "runtime/backend.hpp"
#include "runtime/cuda/driver.hpp"

namespace kiln {
namespace cuda {
namespace {

struct PrimaryContext {
  std::once_flag retained;
  void* handle = nullptr;
};

/// Never destroyed: tensors may be freed while statics are.
std::vector<PrimaryContext>& primary_contexts() {
  static auto* const contexts = new std::vector<PrimaryContext>(static_cast<std::size_t>(device_count()));
  return *contexts;
}

}  // namespace

void* primary_context(int ordinal) {
  PrimaryContext& context = primary_contexts().at(static_cast<std::size_t>(ordinal));
  std::call_once(context.retained, [&] { context.handle = retain_primary_context(ordinal); });
  return context.handle;
}

}  // namespace cuda

CurrentDevice::CurrentDevice(Device device) {
  if (device.is_cuda()) enter(device, cuda::primary_context(device.index));
}

CurrentDevice::CurrentDevice(Device gpu, void* context) noexcept {
  enter(gpu, context);
}

void CurrentDevice::enter(Device gpu, void* context) noexcept {
  previous_ = cuda::current_context();
  if (previous_ == context) return;
  cuda::set_current_context(context);
  // Whatever else was current comes back, since the CUDA runtime takes its current device from it. Only device 0 may
  // stay where there was nothing: it is what the runtime would pick, and a thread that uses Kiln alone then pays for
  // the switch once.
  must_restore_ = previous_ != nullptr || gpu.index != 0;
}

CurrentDevice::~CurrentDevice() {
  if (must_restore_) cuda::set_current_context(previous_);
}

}  // namespace kiln
