// libkiln-orc.so: LLVM's just-in-time linker. The only file of runtime/ that includes LLVM. JITLink is used without
// ORC's sessions and layers: one object is linked at once, against this process, and those would add a megabyte and
// start-up time to do the same.
#include <dlfcn.h>

#include <bit>
#include <cmath>
#include <csetjmp>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include <llvm/ExecutionEngine/JITLink/ELF_x86_64.h>
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/Support/Process.h>

#include "runtime/cpu/orc_library.hpp"

// Conversions that code for CPUs without F16C calls; libgcc has them, but a process need not have been linked with it.
extern "C" {
float __extendhfsf2(_Float16 value);
_Float16 __truncsfhf2(float value);
_Float16 __truncdfhf2(double value);
}

namespace kiln {
namespace {

namespace jitlink = llvm::jitlink;

std::uint16_t bfloat16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

/// GCC 12 has no bfloat16 type; in registers it travels as a _Float16 of the same bits.
_Float16 truncate_float_to_bfloat16(float value) {
  return std::bit_cast<_Float16>(bfloat16_bits(value));
}

_Float16 truncate_double_to_bfloat16(double value) {
  // Rounding twice would go wrong at ties; rounding to odd first keeps what the second rounding needs to know.
  auto narrow = static_cast<float>(value);
  if (!std::isnan(value) && static_cast<double>(narrow) != value) {
    auto bits = std::bit_cast<std::uint32_t>(narrow);
    if (std::abs(static_cast<double>(narrow)) > std::abs(value)) --bits;
    narrow = std::bit_cast<float>(bits | 1U);
  }
  return std::bit_cast<_Float16>(bfloat16_bits(narrow));
}

/// Where a thread goes on when a device_assert fails in the kernel that it runs, and what failed.
struct Failure {
  std::jmp_buf resume;
  std::string message;
};
thread_local Failure* current_run = nullptr;

constexpr const char* kAssertionFailed = "kiln_host_assertion_failed";

/// What device_assert calls. A jump and not an exception: compiled kernels have no tables to unwind by, and their
/// frames nothing to destroy.
[[noreturn]] void assertion_failed(const char* message, const char* file, int line, const long long* program) {
  Failure& failure = *current_run;
  if (std::strncmp(file, "./", 2) == 0) file += 2;  // as Clang names files of the working directory
  failure.message = std::string("device_assert '") + message + "' at " + file + ":" + std::to_string(line) +
                    ", program (" + std::to_string(program[0]) + ", " + std::to_string(program[1]) + ", " +
                    std::to_string(program[2]) + ")";
  std::longjmp(failure.resume, 1);
}

/// Calls the kernel; false when an assertion failed. A frame of its own, which holds nothing that the jump could leave
/// half changed.
__attribute__((noinline)) bool completes(LinkedObject::Entry entry, Failure& failure, void* const* parameters,
                                         const std::int64_t* grid, std::int64_t begin, std::int64_t end) {
  if (setjmp(failure.resume) != 0) return false;
  entry(parameters, grid, begin, end);
  return true;
}

struct RuntimeFunction {
  const char* name;
  void* address;
};

template <typename Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

void* find_symbol(const std::string& name) {
  static void* const vector_math = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
  static void* const math = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  static const RuntimeFunction kRuntime[] = {
      {"__extendhfsf2", address_of(&__extendhfsf2)},
      {"__truncsfhf2", address_of(&__truncsfhf2)},
      {"__truncdfhf2", address_of(&__truncdfhf2)},
      {"__truncsfbf2", address_of(&truncate_float_to_bfloat16)},
      {"__truncdfbf2", address_of(&truncate_double_to_bfloat16)},
      {kAssertionFailed, address_of(&assertion_failed)},
  };
  for (const RuntimeFunction& function : kRuntime)
    if (name == function.name) return function.address;
  for (void* library : {vector_math, math}) {
    if (library == nullptr) continue;
    if (void* address = dlsym(library, name.c_str())) return address;
  }
  return dlsym(RTLD_DEFAULT, name.c_str());
}

class Object final : public LinkedObject {
 public:
  explicit Object(jitlink::InProcessMemoryManager& memory) : memory_(memory) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() override {
    // Nothing can be done about a failure to unmap, and a destructor may not throw.
    if (allocation) llvm::consumeError(memory_.deallocate(std::move(allocation)));
  }
  Entry entry() const noexcept override { return function; }
  bool has_assertions() const noexcept override { return calls_assertion_failed; }
  std::string run_until_failure(void* const* parameters, const std::int64_t* grid, std::int64_t begin,
                                std::int64_t end) const override {
    Failure failure;
    Failure* const outer = std::exchange(current_run, &failure);
    const bool is_complete = completes(function, failure, parameters, grid, begin, end);
    current_run = outer;
    return is_complete ? std::string() : std::move(failure.message);
  }

  Entry function = nullptr;
  bool calls_assertion_failed = false;
  jitlink::JITLinkMemoryManager::FinalizedAlloc allocation;

 private:
  jitlink::InProcessMemoryManager& memory_;
};

/// JITLink calls back here while it links; with the in-process memory manager all of it happens before link_ELF_x86_64
/// returns.
class Context final : public jitlink::JITLinkContext {
 public:
  Context(jitlink::InProcessMemoryManager& memory, std::string entry, Object& object, std::string& problem)
      : JITLinkContext(nullptr), memory_(memory), entry_(std::move(entry)), object_(object), problem_(problem) {}

  jitlink::JITLinkMemoryManager& getMemoryManager() override { return memory_; }

  void notifyFailed(llvm::Error error) override {
    std::string message = llvm::toString(std::move(error));
    if (problem_.empty()) problem_ = std::move(message);
  }

  void lookup(const LookupMap& symbols, std::unique_ptr<jitlink::JITLinkAsyncLookupContinuation> done) override {
    jitlink::AsyncLookupResult result;
    std::string missing;
    for (const auto& [name, flags] : symbols) {
      void* address = find_symbol(name.str());
      if (name == kAssertionFailed) object_.calls_assertion_failed = true;
      if (address == nullptr && flags == jitlink::SymbolLookupFlags::RequiredSymbol)
        missing += (missing.empty() ? "'" : ", '") + name.str() + "'";
      result[name] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
    }
    if (!missing.empty()) {
      problem_ = "this process has no symbol " + missing;
      done->run(llvm::make_error<llvm::StringError>(problem_, llvm::inconvertibleErrorCode()));
      return;
    }
    done->run(std::move(result));
  }

  llvm::Error notifyResolved(jitlink::LinkGraph& graph) override {
    for (const jitlink::Symbol* symbol : graph.defined_symbols())
      if (symbol->hasName() && symbol->getName() == entry_)
        object_.function = symbol->getAddress().toPtr<LinkedObject::Entry>();
    if (object_.function != nullptr) return llvm::Error::success();
    return llvm::make_error<llvm::StringError>("it does not define '" + entry_ + "'", llvm::inconvertibleErrorCode());
  }

  void notifyFinalized(jitlink::JITLinkMemoryManager::FinalizedAlloc allocation) override {
    object_.allocation = std::move(allocation);
  }

 private:
  jitlink::InProcessMemoryManager& memory_;
  std::string entry_;
  Object& object_;
  std::string& problem_;
};

void link(std::span<const std::byte> code, const std::string& name, const std::string& entry, LinkResult& result) {
  // Never destroyed: objects may outlive every static.
  static auto* const memory = new jitlink::InProcessMemoryManager(llvm::sys::Process::getPageSizeEstimate());
  const llvm::StringRef bytes(reinterpret_cast<const char*>(code.data()), code.size());
  auto graph = jitlink::createLinkGraphFromELFObject_x86_64(llvm::MemoryBufferRef(bytes, name));
  if (!graph) {
    result.problem = llvm::toString(graph.takeError());
    return;
  }
  auto object = std::make_unique<Object>(*memory);
  jitlink::link_ELF_x86_64(std::move(*graph), std::make_unique<Context>(*memory, entry, *object, result.problem));
  if (result.problem.empty() && object->allocation) result.object = std::move(object);
  if (result.object == nullptr && result.problem.empty()) result.problem = "the linker gave no reason";
}

}  // namespace
}  // namespace kiln

extern "C" __attribute__((visibility("default"))) void kiln_link_object(std::span<const std::byte> code,
                                                                        const std::string& name,
                                                                        const std::string& entry,
                                                                        kiln::LinkResult& result) {
  try {
    kiln::link(code, name, entry, result);
  } catch (const std::exception& error) {
    result.problem = error.what();
  }
}
