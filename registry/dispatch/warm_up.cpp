#include "registry/dispatch/warm_up.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "core/errors.hpp"
#include "core/interruption.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/registry.hpp"

namespace kiln {
namespace {

constexpr std::size_t kMostThreads = 16;

void warm_up(const WarmUpCall& call) {
  std::vector<Tensor> outputs;
  for (const TensorView& view : call.outputs) outputs.emplace_back(view, nullptr);
  DispatchOptions options{.outputs = outputs,
                          .config = call.config.has_value() ? &*call.config : nullptr,
                          .tuning = call.tuning,
                          .overlap_previous = call.overlap_previous};
  if (call.device.has_value()) options.stream = Stream::default_of(*call.device);
  resolve(call.op, call.inputs, call.attributes, options);
}

/// Calls with other numbers of rows, of which each has a kernel that those before have not: `call` stands for them all.
std::vector<WarmUpCall> calls_of_any_rows(const WarmUpCall& call) {
  if (call.inputs.empty() || call.inputs[0].ndim() < 2)
    throw_value_error("op '" + call.op + "' with any_rows: the first input has no rows and columns" +
                      (call.inputs.empty() ? std::string() : ", it is " + describe(call.inputs[0])));
  if (!call.outputs.empty())
    throw_value_error("op '" + call.op + "' with any_rows: an output was given, which has one number of rows");
  const OpSpec& spec = Registry::process().get(call.op);
  const int axis = call.inputs[0].ndim() - 2;
  const std::int64_t most = call.inputs[0].shape[axis];
  std::vector<WarmUpCall> calls;
  std::set<std::string> known;
  // Where a choice of kernels changes is known to within 2%.
  constexpr std::int64_t kSteps = 64;
  for (std::int64_t rows = 1;; rows = std::min(rows + std::max<std::int64_t>(rows / kSteps, 1), most)) {
    WarmUpCall one = call;
    one.any_rows = false;
    one.inputs[0].shape[axis] = std::min(rows, most);
    const Device device = call.device.value_or(call.inputs[0].device);
    const Call made = validated_call(spec, one.inputs, one.attributes, {.seen_on = device});
    const Choice choice =
        choose(made, target_of(device), one.config ? &*one.config : nullptr, {}, one.overlap_previous);
    bool is_new = false;
    for (const CompileRequest& request : choice.requests)
      is_new |= known
                    .insert(instance_name(request) + " " + std::to_string(request.num_warps) + " " +
                            std::to_string(request.copy_warps) + " " + std::to_string(request.vector_width))
                    .second;
    if (is_new) calls.push_back(std::move(one));
    if (rows >= most) return calls;
  }
}

/// Rethrows what a call failed of, with its place in the list.
[[noreturn]] void rethrow(const std::exception_ptr& failure, std::size_t index, const WarmUpCall& call) {
  const std::string place = "warm_up, call " + std::to_string(index) + " (op '" + call.op + "')";
  try {
    std::rethrow_exception(failure);
  } catch (const UnknownOpError& error) {
    throw UnknownOpError(error.op(), place + ": " + error.what());
  } catch (const UsageError& error) {
    throw UsageError(error.kind(), place + ": " + error.what());
  } catch (const DeviceError& error) {
    throw DeviceError(place + ": " + error.call(), error.code(), error.meaning());
  } catch (const CompileError& error) {
    throw CompileError(error.op(), place + "; " + error.configuration(), error.log());
  }
}

}  // namespace

void warm_up(std::span<const WarmUpCall> given, int num_threads) {
  if (num_threads < 0)
    throw_value_error("warm_up with num_threads=" + std::to_string(num_threads) +
                      "; expected 1 or more, or 0 for one thread for each core");
  std::vector<WarmUpCall> calls;
  std::vector<std::size_t> places;  ///< of each call among those that were given
  for (std::size_t i = 0; i < given.size(); ++i) {
    try {
      std::vector<WarmUpCall> meant = given[i].any_rows ? calls_of_any_rows(given[i]) : std::vector{given[i]};
      places.insert(places.end(), meant.size(), i);
      std::move(meant.begin(), meant.end(), std::back_inserter(calls));
    } catch (const Error&) {
      rethrow(std::current_exception(), i, given[i]);
    }
  }
  std::size_t threads = num_threads > 0 ? static_cast<std::size_t>(num_threads)
                                        : std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  threads = std::min(threads, calls.size());
  std::vector<std::exception_ptr> failures(calls.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t running = threads;
  std::stop_source stop;
  std::exception_ptr interrupt;  ///< guarded by the mutex; what ends the whole list, whichever call it met
  const auto work = [&] {
    const InterruptibleScope scope(stop.get_token());
    for (std::size_t i = next++; i < calls.size() && !stop.stop_requested(); i = next++) {
      try {
        warm_up(calls[i]);
      } catch (const Error&) {
        failures[i] = std::current_exception();
      } catch (...) {
        const std::lock_guard lock(mutex);
        interrupt = std::current_exception();
        stop.request_stop();
      }
    }
    const std::lock_guard lock(mutex);
    --running;
    changed.notify_all();
  };
  {
    // Compiling scales with threads and blocks in between; the pool of workers is for kernels.
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
    if (threads > 0) work();
    try {
      std::unique_lock lock(mutex);
      wait_interruptibly(changed, lock, [&] { return running == 0; });
    } catch (...) {
      stop.request_stop();
      throw;
    }
  }
  if (interrupt) std::rethrow_exception(interrupt);
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (failures[i] != nullptr) rethrow(failures[i], places[i], calls[i]);
}

}  // namespace kiln
