#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/library.hpp"
#include "runtime/process_fork.hpp"

namespace kiln {
namespace cuda {
namespace {

// By their names in the library, as in driver.cpp.
#define KILN_GRAPH_FUNCTIONS(FUNCTION)        \
  FUNCTION(cuStreamBeginCapture_v2)           \
  FUNCTION(cuStreamEndCapture)                \
  FUNCTION(cuGraphInstantiateWithFlags)       \
  FUNCTION(cuGraphLaunch)                     \
  FUNCTION(cuGraphDestroy)                    \
  FUNCTION(cuGraphExecDestroy)                \
  FUNCTION(cuGraphGetNodes)                   \
  FUNCTION(cuGraphDestroyNode)                \
  FUNCTION(cuGraphExecUpdate_v2)              \
  FUNCTION(cuGraphAddChildGraphNode)          \
  FUNCTION(cuGraphKernelNodeGetParams_v2)     \
  FUNCTION(cuGraphKernelNodeSetParams_v2)     \
  FUNCTION(cuGraphExecKernelNodeSetParams_v2) \
  FUNCTION(cuUserObjectCreate)                \
  FUNCTION(cuUserObjectRelease)               \
  FUNCTION(cuGraphRetainUserObject)

struct Functions {
// A declared name takes no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define KILN_DECLARE(name) decltype(&::name) name = nullptr;
  KILN_GRAPH_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
  // The third version is since CUDA 12.3 and the one that later headers declare; it tells of edges that hold data, of
  // which the second makes an error. An edge's data is 8 bytes that nobody here reads.
  CUresult (*capture_info_v3)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                              const void**, std::size_t*) = nullptr;
  CUresult (*capture_info_v2)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                              std::size_t*) = nullptr;
  // As with capture_info; edges without data are plain ones.
  CUresult (*set_dependencies_v2)(CUstream, CUgraphNode*, const void*, std::size_t, unsigned) = nullptr;
  CUresult (*set_dependencies)(CUstream, CUgraphNode*, std::size_t, unsigned) = nullptr;
  // Since CUDA 12.3.
  CUresult (*begin_capture_to_graph)(CUstream, CUgraph, const CUgraphNode*, const void*, std::size_t,
                                     CUstreamCaptureMode) = nullptr;
};

/// Filled while the driver is opened. Whoever holds a handle of the driver's knows that it is.
constinit Functions functions;

CUstream stream_of(void* stream) {
  return static_cast<CUstream>(stream);
}
CUgraph graph_of(void* graph) {
  return static_cast<CUgraph>(graph);
}
CUgraphExec executable_of(void* executable) {
  return static_cast<CUgraphExec>(executable);
}

struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;  ///< the driver's, until the next work
  std::size_t num_dependencies = 0;
};

CaptureInfo capture_info(void* stream) {
  require_driver();
  CaptureInfo info;
  const void* edges = nullptr;
  const CUresult result = functions.capture_info_v3 != nullptr
                              ? functions.capture_info_v3(stream_of(stream), &info.status, &info.id, &info.graph,
                                                          &info.dependencies, &edges, &info.num_dependencies)
                              : functions.capture_info_v2(stream_of(stream), &info.status, &info.id, &info.graph,
                                                          &info.dependencies, &info.num_dependencies);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return {};
  check(result, "cuStreamGetCaptureInfo");
  return info;
}

const char* update_problem(CUgraphExecUpdateResult result) {
  switch (result) {
    case CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED:
      return "it has other nodes, or they depend on one another in another way";
    case CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED:
      return "a node is of another type";
    case CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED:
    case CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE:
      return "a node runs another kernel, which the driver does not exchange";
    case CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED:
      return "a node's parameters differ in a way that the driver does not exchange";
    case CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED:
      return "a node's attributes differ in a way that the driver does not exchange";
    case CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED:
      return "it has a node that the driver cannot update";
    default:
      return "the driver says no more than that";
  }
}

std::string describe_failed_node(const CUgraphExecUpdateResultInfo& info, void* graph) {
  if (info.errorNode == nullptr) return "";
  const std::vector<void*> nodes = graph_nodes(graph);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i] == info.errorNode) return fmt::format(" (node {} of {})", i, nodes.size());
  return "";
}

/// What the codes of a capture that ended badly mean to who wrote its body.
[[noreturn]] void fail_capture(CUresult result) {
  const char* meaning = nullptr;
  switch (result) {
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
      meaning =
          "a stream that was forked off the captured one was not joined: let the captured stream wait for each "
          "(wait_stream, Event::wait) before the body returns";
      break;
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
      meaning =
          "the body did something that CUDA cannot record (a synchronisation, a blocking call, the default stream), "
          "which spoiled the capture";
      break;
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
      meaning = "the body ended the capture itself, or began another one on this stream";
      break;
    default:
      fail_call(static_cast<int>(result), "cuStreamEndCapture");
  }
  throw DeviceError("capturing a graph", static_cast<int>(result), meaning);
}

}  // namespace

const char* resolve_graph_functions(void* library) noexcept {
  const char* missing = nullptr;
#define KILN_RESOLVE(name)                                                            \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name)); \
  if (functions.name == nullptr && missing == nullptr) missing = #name;
  KILN_GRAPH_FUNCTIONS(KILN_RESOLVE)
#undef KILN_RESOLVE
  const auto resolve = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
  };
  resolve(functions.capture_info_v3, "cuStreamGetCaptureInfo_v3");
  resolve(functions.capture_info_v2, "cuStreamGetCaptureInfo_v2");
  resolve(functions.set_dependencies_v2, "cuStreamUpdateCaptureDependencies_v2");
  resolve(functions.set_dependencies, "cuStreamUpdateCaptureDependencies");
  resolve(functions.begin_capture_to_graph, "cuStreamBeginCaptureToGraph");
  if (functions.capture_info_v3 == nullptr && functions.capture_info_v2 == nullptr && missing == nullptr)
    missing = "cuStreamGetCaptureInfo_v2";
  if (functions.set_dependencies_v2 == nullptr && functions.set_dependencies == nullptr && missing == nullptr)
    missing = "cuStreamUpdateCaptureDependencies";
  return missing;
}

void begin_capture(void* stream) {
  require_driver();
  // Thread-local: other threads may go on allocating and loading.
  check(functions.cuStreamBeginCapture_v2(stream_of(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture");
}

void begin_capture_to_graph(void* stream, void* graph, std::span<void* const> dependencies) {
  require_driver();
  if (functions.begin_capture_to_graph == nullptr)
    throw DeviceError("cuStreamBeginCaptureToGraph", 0,
                      fmt::format("this driver is for CUDA {}.{}, and capturing into a graph that exists needs one for "
                                  "12.3 or newer",
                                  driver_version() / 1000, driver_version() % 1000 / 10));
  std::vector<CUgraphNode> nodes;
  for (void* node : dependencies) nodes.push_back(static_cast<CUgraphNode>(node));
  check(functions.begin_capture_to_graph(stream_of(stream), graph_of(graph), nodes.data(), nullptr, nodes.size(),
                                         CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCaptureToGraph");
}

void* end_capture(void* stream) {
  require_driver();
  CUgraph graph = nullptr;
  if (const CUresult result = functions.cuStreamEndCapture(stream_of(stream), &graph); result != CUDA_SUCCESS)
    fail_capture(result);
  return graph;
}

void abandon_capture(void* stream, bool is_callers_graph) noexcept {
  if (is_lost_in_fork(ForkLoss::cuda_driver)) return;
  CUgraph graph = nullptr;
  if (functions.cuStreamEndCapture(stream_of(stream), &graph) == CUDA_SUCCESS && graph != nullptr && !is_callers_graph)
    functions.cuGraphDestroy(graph);
}

std::uint64_t capture_id(void* stream) {
  const CaptureInfo info = capture_info(stream);
  return info.status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? info.id : 0;
}

std::vector<void*> capture_dependencies(void* stream) {
  const CaptureInfo info = capture_info(stream);
  return std::vector<void*>(info.dependencies, info.dependencies + info.num_dependencies);
}

void* captured_graph(void* stream) {
  return capture_info(stream).graph;
}

void capture_child_graph(void* stream, void* graph) {
  const CaptureInfo info = capture_info(stream);
  CUgraphNode node = nullptr;
  check(
      functions.cuGraphAddChildGraphNode(&node, info.graph, info.dependencies, info.num_dependencies, graph_of(graph)),
      "cuGraphAddChildGraphNode");
  check(functions.set_dependencies_v2 != nullptr
            ? functions.set_dependencies_v2(stream_of(stream), &node, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES)
            : functions.set_dependencies(stream_of(stream), &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
        "cuStreamUpdateCaptureDependencies");
}

std::vector<void*> graph_nodes(void* graph) {
  require_driver();
  std::size_t count = 0;
  check(functions.cuGraphGetNodes(graph_of(graph), nullptr, &count), "cuGraphGetNodes");
  std::vector<CUgraphNode> nodes(count);
  if (count > 0) check(functions.cuGraphGetNodes(graph_of(graph), nodes.data(), &count), "cuGraphGetNodes");
  return std::vector<void*>(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(count));
}

void destroy_node(void* node) noexcept {
  functions.cuGraphDestroyNode(static_cast<CUgraphNode>(node));
}

void* create_user_object(void* data, void (*drop)(void* data)) {
  require_driver();
  CUuserObject object = nullptr;
  check(functions.cuUserObjectCreate(&object, data, drop, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), "cuUserObjectCreate");
  return object;
}

void give_user_object(void* graph, void* object) {
  auto* const given = static_cast<CUuserObject>(object);
  const CUresult result = functions.cuGraphRetainUserObject(graph_of(graph), given, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result != CUDA_SUCCESS) functions.cuUserObjectRelease(given, 1);
  check(result, "cuGraphRetainUserObject");
}

void launch_graph(void* executable, void* stream) {
  require_driver();
  check(functions.cuGraphLaunch(executable_of(executable), stream_of(stream)), "cuGraphLaunch");
}

}  // namespace cuda

void CudaBackend::destroy_graph(void* graph) noexcept {
  if (is_lost_in_fork(ForkLoss::cuda_driver)) return;
  cuda::functions.cuGraphDestroy(cuda::graph_of(graph));
}

/// Memory that the graph itself allocates and leaves is freed at the next launch.
void* CudaBackend::instantiate_graph(void* graph) {
  cuda::require_driver();
  const cuda::RelaxedCapture relaxed;  // this thread may be in the body of another capture
  CUgraphExec executable = nullptr;
  cuda::check(cuda::functions.cuGraphInstantiateWithFlags(&executable, cuda::graph_of(graph),
                                                          CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
              "cuGraphInstantiateWithFlags");
  return executable;
}

std::string CudaBackend::update_executable(void* executable, void* graph) {
  cuda::require_driver();
  const cuda::RelaxedCapture relaxed;
  CUgraphExecUpdateResultInfo info{};
  const CUresult result =
      cuda::functions.cuGraphExecUpdate_v2(cuda::executable_of(executable), cuda::graph_of(graph), &info);
  if (result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
    return cuda::update_problem(info.result) + cuda::describe_failed_node(info, graph);
  cuda::check(result, "cuGraphExecUpdate");
  return "";
}

void CudaBackend::set_kernel_parameters(void* executable, void* node, void* source, void* const* parameters) {
  cuda::require_driver();
  CUDA_KERNEL_NODE_PARAMS_v2 settings{};
  cuda::check(cuda::functions.cuGraphKernelNodeGetParams_v2(static_cast<CUgraphNode>(source), &settings),
              "cuGraphKernelNodeGetParams");
  settings.kernelParams = const_cast<void**>(parameters);
  settings.extra = nullptr;
  const cuda::RelaxedCapture relaxed;
  cuda::check(cuda::functions.cuGraphExecKernelNodeSetParams_v2(cuda::executable_of(executable),
                                                                static_cast<CUgraphNode>(node), &settings),
              "cuGraphExecKernelNodeSetParams");
  cuda::check(cuda::functions.cuGraphKernelNodeSetParams_v2(static_cast<CUgraphNode>(source), &settings),
              "cuGraphKernelNodeSetParams");
}

void CudaBackend::destroy_executable(void* executable) noexcept {
  if (is_lost_in_fork(ForkLoss::cuda_driver)) return;
  const cuda::RelaxedCapture relaxed;  // else it would spoil a capture of this thread's
  cuda::functions.cuGraphExecDestroy(cuda::executable_of(executable));
}

}  // namespace kiln
