#include "runtime/cuda_context.hpp"

#include <mutex>
#include <vector>

#include "runtime/cuda_driver.hpp"

namespace kiln::cuda {
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

CurrentContext::CurrentContext(void* context, int ordinal) noexcept
    : previous_(current_context()), must_restore_(false) {
  if (previous_ == context) return;
  set_current_context(context);
  // Whatever else was current comes back, since the CUDA runtime takes its current device from it. Only device 0 may
  // stay where there was nothing: it is what the runtime would pick, and a thread that uses Kiln alone then pays for
  // the switch once.
  must_restore_ = previous_ != nullptr || ordinal != 0;
}

CurrentContext::~CurrentContext() {
  if (must_restore_) set_current_context(previous_);
}

}  // namespace kiln::cuda
