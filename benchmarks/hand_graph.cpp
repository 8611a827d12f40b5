#include "benchmarks/hand_graph.hpp"

#include <stdexcept>
#include <string>

#include "runtime/graph.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>
#include <dlfcn.h>

namespace {

void check(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(std::string(call) + " failed with code " + std::to_string(static_cast<int>(result)));
}

/// A function of the driver that Kiln has opened already.
template <typename Function>
Function* driver(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const function = library != nullptr ? dlsym(library, name) : nullptr;
  if (function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  return reinterpret_cast<Function*>(function);
}

}  // namespace

HandGraph::HandGraph(kiln::Stream stream, const std::function<void()>& body) : stream_(stream) {
  CUgraph recorded = nullptr;
  CUgraph by_hand = nullptr;
  check(driver<decltype(cuGraphCreate)>("cuGraphCreate")(&recorded, 0), "cuGraphCreate");
  recorded_ = recorded;
  check(driver<decltype(cuGraphCreate)>("cuGraphCreate")(&by_hand, 0), "cuGraphCreate");
  kiln::capture_into(recorded, {}, stream, body);

  std::size_t count = 0;
  const auto get_nodes = driver<decltype(cuGraphGetNodes)>("cuGraphGetNodes");
  check(get_nodes(recorded, nullptr, &count), "cuGraphGetNodes");
  std::vector<CUgraphNode> nodes(count);  // in the order they were made, which is that of the chain
  check(get_nodes(recorded, nodes.data(), &count), "cuGraphGetNodes");
  CUgraphNode previous = nullptr;
  for (const CUgraphNode node : nodes) {
    CUDA_KERNEL_NODE_PARAMS parameters{};
    check(driver<decltype(cuGraphKernelNodeGetParams_v2)>("cuGraphKernelNodeGetParams_v2")(node, &parameters),
          "cuGraphKernelNodeGetParams");
    CUgraphNode added = nullptr;
    check(driver<decltype(cuGraphAddKernelNode_v2)>("cuGraphAddKernelNode_v2")(
              &added, by_hand, previous != nullptr ? &previous : nullptr, previous != nullptr ? 1 : 0, &parameters),
          "cuGraphAddKernelNode");
    check(driver<decltype(cuGraphKernelNodeCopyAttributes)>("cuGraphKernelNodeCopyAttributes")(added, node),
          "cuGraphKernelNodeCopyAttributes");
    previous = added;
  }
  CUgraphExec executable = nullptr;
  check(driver<decltype(cuGraphInstantiateWithFlags)>("cuGraphInstantiateWithFlags")(&executable, by_hand, 0),
        "cuGraphInstantiate");
  executable_ = executable;
  check(driver<decltype(cuGraphDestroy)>("cuGraphDestroy")(by_hand), "cuGraphDestroy");
}

HandGraph::~HandGraph() {
  if (executable_ != nullptr)
    driver<decltype(cuGraphExecDestroy)>("cuGraphExecDestroy")(static_cast<CUgraphExec>(executable_));
  if (recorded_ != nullptr) driver<decltype(cuGraphDestroy)>("cuGraphDestroy")(static_cast<CUgraph>(recorded_));
}

void HandGraph::launch() const {
  static const auto launch_graph = driver<decltype(cuGraphLaunch)>("cuGraphLaunch");
  check(launch_graph(static_cast<CUgraphExec>(executable_), static_cast<CUstream>(stream_.handle)), "cuGraphLaunch");
}

#else

HandGraph::HandGraph(kiln::Stream stream, const std::function<void()>&) : stream_(stream) {
  throw std::runtime_error("this build has no NVIDIA target");
}
HandGraph::~HandGraph() = default;
void HandGraph::launch() const {}

#endif
