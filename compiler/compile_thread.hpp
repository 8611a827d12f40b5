#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "compiler/compile_bounds.hpp"

namespace kiln {

namespace detail {
void run_on_compile_thread(const std::string& op, const std::string& configuration,
                           std::function<void(const CompileBounds&)> compile);
}

/// Runs `compile` on a thread of its own and waits for what it returns or throws. The thread's stack is deep, since
/// compilers recurse as deep as sources are nested and templates are instantiated.
///
/// A wait that is interrupted (core/interruption.hpp), or takes longer than KILN_COMPILE_TIMEOUT, ends at once, the
/// latter with CompileError; the compile is told through its bounds and left behind, so it must own whatever it uses.
/// Compilers cannot be stopped everywhere, which is why it is left rather than waited for. UsageError(value) for
/// environment variables that are not as they should be.
template <typename Compile>
auto run_on_compile_thread(const std::string& op, const std::string& configuration, Compile compile) {
  const auto result = std::make_shared<std::optional<std::invoke_result_t<Compile&, const CompileBounds&>>>();
  detail::run_on_compile_thread(op, configuration, [result, compile = std::move(compile)](const CompileBounds& bounds) {
    result->emplace(compile(bounds));
  });
  return **std::move(result);
}

}  // namespace kiln
