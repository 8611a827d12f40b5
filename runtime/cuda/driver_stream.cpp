#include "runtime/cuda/driver.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include "runtime/cuda/library.hpp"
#include "runtime/process_fork.hpp"

namespace kiln::cuda {
namespace {

// By their names in the library, as in driver.cpp.
#define KILN_STREAM_FUNCTIONS(FUNCTION) \
  FUNCTION(cuStreamCreateWithPriority)  \
  FUNCTION(cuStreamGetPriority)         \
  FUNCTION(cuCtxGetStreamPriorityRange) \
  FUNCTION(cuStreamDestroy_v2)          \
  FUNCTION(cuStreamSynchronize)         \
  FUNCTION(cuStreamWaitEvent)           \
  FUNCTION(cuStreamIsCapturing)         \
  FUNCTION(cuEventCreate)               \
  FUNCTION(cuEventDestroy_v2)           \
  FUNCTION(cuEventRecord)               \
  FUNCTION(cuEventQuery)                \
  FUNCTION(cuEventSynchronize)

struct Functions {
// A declared name takes no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define KILN_DECLARE(name) decltype(&::name) name = nullptr;
  KILN_STREAM_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
  // From CUDA 12.8 on cuda.h declares the second version only, which older drivers lack; both measure the same.
  CUresult (*event_elapsed_time)(float*, CUevent, CUevent) = nullptr;
};

/// Filled while the driver is opened. Whoever holds a handle of the driver's knows that it is.
constinit Functions functions;

CUstream stream_of(void* stream) {
  return static_cast<CUstream>(stream);
}
CUevent event_of(void* event) {
  return static_cast<CUevent>(event);
}

}  // namespace

const char* resolve_stream_functions(void* library) noexcept {
  const char* missing = nullptr;
#define KILN_RESOLVE(name)                                                            \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name)); \
  if (functions.name == nullptr && missing == nullptr) missing = #name;
  KILN_STREAM_FUNCTIONS(KILN_RESOLVE)
#undef KILN_RESOLVE
  functions.event_elapsed_time =
      reinterpret_cast<decltype(functions.event_elapsed_time)>(dlsym(library, "cuEventElapsedTime"));
  if (functions.event_elapsed_time == nullptr && missing == nullptr) missing = "cuEventElapsedTime";
  return missing;
}

void* create_stream(int priority) {
  require_driver();
  const RelaxedCapture relaxed;  // this thread may be recording another stream
  CUstream stream = nullptr;
  // A priority that the device does not have becomes the nearest that it has.
  check(functions.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority), "cuStreamCreateWithPriority");
  return stream;
}

int stream_priority(void* stream) {
  require_driver();
  int priority = 0;
  check(functions.cuStreamGetPriority(stream_of(stream), &priority), "cuStreamGetPriority");
  return priority;
}

StreamPriorityRange stream_priority_range() {
  require_driver();
  StreamPriorityRange range;
  check(functions.cuCtxGetStreamPriorityRange(&range.least, &range.greatest), "cuCtxGetStreamPriorityRange");
  return range;
}

void destroy_stream(void* stream) noexcept {
  if (is_lost_in_fork(ForkLoss::cuda_driver)) return;
  const RelaxedCapture relaxed;
  functions.cuStreamDestroy_v2(stream_of(stream));
}

void synchronize_stream(void* stream) {
  require_driver();
  check(functions.cuStreamSynchronize(stream_of(stream)), "cuStreamSynchronize");
}

bool stream_is_capturing(void* stream) {
  require_driver();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = functions.cuStreamIsCapturing(stream_of(stream), &status);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  check(result, "cuStreamIsCapturing");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void* create_event(bool is_timed) {
  require_driver();
  CUevent event = nullptr;
  check(functions.cuEventCreate(&event, is_timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  return event;
}

void destroy_event(void* event) noexcept {
  if (is_lost_in_fork(ForkLoss::cuda_driver)) return;
  functions.cuEventDestroy_v2(event_of(event));
}

void record_event(void* event, void* stream) {
  require_driver();
  check(functions.cuEventRecord(event_of(event), stream_of(stream)), "cuEventRecord");
}

void wait_for_event(void* stream, void* event) {
  require_driver();
  check(functions.cuStreamWaitEvent(stream_of(stream), event_of(event), CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent");
}

bool event_is_done(void* event) {
  require_driver();
  const CUresult result = functions.cuEventQuery(event_of(event));
  if (result == CUDA_ERROR_NOT_READY) return false;
  check(result, "cuEventQuery");
  return true;
}

void synchronize_event(void* event) {
  require_driver();
  check(functions.cuEventSynchronize(event_of(event)), "cuEventSynchronize");
}

double elapsed_us(void* start, void* stop) {
  require_driver();
  float elapsed_ms = 0;
  check(functions.event_elapsed_time(&elapsed_ms, event_of(start), event_of(stop)), "cuEventElapsedTime");
  return static_cast<double>(elapsed_ms) * 1000.0;
}

}  // namespace kiln::cuda
