// Stream capture, on a GPU: a warm call becomes a graph node, a cold one is refused with the capture intact.

#include <dlfcn.h>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

/// The few driver calls that make and run a graph; cuda.h stays in runtime/.
class Capture {
 public:
  explicit Capture(Stream stream) : stream_(stream) {
    library_ = ::dlopen("libcuda.so.1", RTLD_NOW);
    check(call<int(void*, int)>("cuStreamBeginCapture_v2")(stream_.handle, /*thread local*/ 1));
  }
  void end() {
    check(call<int(void*, void**)>("cuStreamEndCapture")(stream_.handle, &graph_));
    check(call<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&executable_, graph_, 0));
  }
  std::size_t nodes() {
    std::size_t count = 0;
    check(call<int(void*, void**, std::size_t*)>("cuGraphGetNodes")(graph_, nullptr, &count));
    return count;
  }
  void replay() { check(call<int(void*, void*)>("cuGraphLaunch")(executable_, stream_.handle)); }
  ~Capture() {
    if (executable_ != nullptr) call<int(void*)>("cuGraphExecDestroy")(executable_);
    if (graph_ != nullptr) call<int(void*)>("cuGraphDestroy")(graph_);
  }

 private:
  template <typename Function>
  Function* call(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  static void check(int code) {
    if (code != 0) throw DeviceError("a driver call of the test", code, "unexpected");
  }
  Stream stream_;
  void* library_ = nullptr;
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

using CaptureTest = GpuKernelTest;

TEST_F(CaptureTest, AWarmCallIsCaptured) {
  const OwnedStream stream(Device::cuda(0));
  const Tensor x = make_f32({1, 2, 3}, Device::cuda(0)), one = make_f32({1, 1, 1}, Device::cuda(0));
  const Tensor outputs[] = {make_f32({0, 0, 0}, Device::cuda(0))};
  const DispatchOptions options{.outputs = outputs, .stream = stream.get()};
  dispatch_gpu_op("add", {x, one}, {}, options);
  synchronize(stream);
  Capture capture(stream.get());
  dispatch_gpu_op("add", {outputs[0], one}, {}, options);
  const ResolvedOp add = resolve("add", {outputs[0].view(), one.view()}, {}, options);
  add({outputs[0], one}, {outputs[0]}, stream);
  capture.end();
  EXPECT_EQ(capture.nodes(), 2u);
  EXPECT_EQ(read_f32(outputs[0]), (std::vector<float>{2, 3, 4}));
  capture.replay();
  capture.replay();
  synchronize(stream);
  EXPECT_EQ(read_f32(outputs[0]), (std::vector<float>{6, 7, 8}));
}

TEST_F(CaptureTest, AColdCallIsRefusedAndTheCaptureGoesOn) {
  const OwnedStream stream(Device::cuda(0));
  const Tensor x = make_f32({1, 2, 3, 4, 5}, Device::cuda(0));
  const Tensor outputs[] = {make_f32({0, 0, 0, 0, 0}, Device::cuda(0))};
  const DispatchOptions options{.outputs = outputs, .stream = stream.get()};
  dispatch_gpu_op("neg", {x}, {}, options);
  synchronize(stream);
  Capture capture(stream.get());
  dispatch_gpu_op("neg", {x}, {}, options);
  EXPECT_THAT(value_error([&] { dispatch_gpu_op("expm1", {x}, {}, options); }), Says("'expm1'", "captur"));
  EXPECT_THROW(resolve("expm1", {x.view()}, {}, options), UsageError);
  capture.end();
  EXPECT_EQ(capture.nodes(), 1u);
  capture.replay();
  synchronize(stream);
  EXPECT_EQ(read_f32(outputs[0]), (std::vector<float>{-1, -2, -3, -4, -5}));
  dispatch_gpu_op("expm1", {x}, {}, options);
  synchronize(stream);
}

}  // namespace
}  // namespace kiln::test
