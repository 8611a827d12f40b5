#include "python/bindings/stream_scope.hpp"

#include <vector>

namespace kiln::python {
namespace {

struct Scope {
  const StreamScope* owner;
  Stream stream;
  bool is_torchs;
};
thread_local std::vector<Scope> scopes_of_this_thread;

}  // namespace

StreamScope::StreamScope(Stream stream, bool is_torchs) {
  scopes_of_this_thread.push_back({this, stream, is_torchs});
}

StreamScope::~StreamScope() {
  std::erase_if(scopes_of_this_thread, [this](const Scope& scope) { return scope.owner == this; });
}

std::optional<Stream> StreamScope::current(Device device, bool for_torch) noexcept {
  for (auto scope = scopes_of_this_thread.rbegin(); scope != scopes_of_this_thread.rend(); ++scope)
    if (scope->stream.device == device)
      return for_torch && scope->is_torchs ? std::nullopt : std::optional(scope->stream);
  return std::nullopt;
}

}  // namespace kiln::python
