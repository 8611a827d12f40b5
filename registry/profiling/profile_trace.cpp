#include "registry/profiling/profile_trace.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/output_file.hpp"
#include "registry/plan/plan.hpp"
#include "registry/profiling/device_region.hpp"
#include "registry/profiling/profile_memory.hpp"
#include "registry/profiling/profile_session.hpp"
#include "registry/profiling/profiled_op.hpp"
#include "runtime/device_info.hpp"

namespace kiln {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{1} << 20;
/// Above every process that Linux makes: GPUs are shown as processes of their own.
constexpr int kFirstDevicePid = 1 << 23;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// JSON has no NaN and no infinity, and a user's spec may state any cost.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

const char* category(ProfilePhase phase) {
  switch (phase) {
    case ProfilePhase::plan:
      return "plan";
    case ProfilePhase::compile:
      return "compile";
    case ProfilePhase::load:
      return "load";
    case ProfilePhase::tune:
      return "tune";
  }
  return "?";
}

/// A line of the trace that slices lie on.
struct Track {
  int pid = 0, tid = 0;
};

/// An op's name and what a slice says of it, as JSON.
struct OpTexts {
  std::string name, args;
};

struct DeviceSlice {
  ProfileTime start, end;
  const Plan* plan;
  std::string region;  ///< as JSON
};

/// When a GPU worked for a region.
struct RegionSlice {
  ProfileTime start, end;
  std::string name, region;  ///< as JSON
};

struct MemorySlice {
  ProfileTime start, end;
  std::int64_t bytes;
};

/// What is shown of one GPU.
struct DeviceLines {
  std::vector<RegionSlice> regions;
  std::map<void*, std::vector<DeviceSlice>> streams;       ///< by handle
  std::map<std::string, std::vector<MemorySlice>> memory;  ///< by kind
};

/// Event by event, so that a long trace is never in memory as a whole.
class TraceWriter {
 public:
  TraceWriter(const ProfileSession& session, const std::string& path)
      : session_(session), file_(path), pid_(::getpid()) {
    text_ = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
    name_process(pid_, "kiln");
  }

  void write() {
    for (const ThreadRecords& thread : session_.threads) write_thread(thread);
    for (const MemoryActivity& activity : session_.timing.memory())
      device_lines_[Device::cuda(activity.device_index)].memory[name_of(activity)].push_back(
          {activity.start, activity.end, activity.bytes});
    int device_pid = kFirstDevicePid, tid = 0;
    for (auto& [device, lines] : device_lines_) {
      name_process(++device_pid, fmt::format("{} {}", to_string(device), device_info(device).name));
      write_lines(lines.regions, device_pid, tid, "regions", [&](const RegionSlice& one, Track track) {
        slice(one.name, "device_region", track, one.start, one.end, fmt::format("\"region\": {}", one.region));
      });
      for (auto& [handle, slices] : lines.streams)
        write_lines(slices, device_pid, tid,
                    handle == nullptr ? "default stream" : fmt::format("stream {}", fmt::ptr(handle)),
                    [&](const DeviceSlice& one, Track track) { write_device_slice(one, track); });
      for (auto& [name, slices] : lines.memory)
        write_lines(slices, device_pid, tid, name, [&, &of = name](const MemorySlice& one, Track track) {
          slice(quoted(of), "memory", track, one.start, one.end,
                fmt::format("\"bytes\": {}, \"gb_s\": {}", one.bytes,
                            number(static_cast<double>(one.bytes) / to_us(one.end - one.start) * 1e-3)));
        });
    }
    text_ += "\n]}\n";
    flush();
    file_.commit();
  }

 private:
  void write_thread(const ThreadRecords& thread) {
    const Track track{pid_, thread.thread_id};
    name_track(track, thread.thread_name.empty() ? fmt::format("thread {}", thread.thread_id) : thread.thread_name);
    std::vector<std::string> regions;
    for (std::uint32_t i = 0; i < thread.region_nodes.size(); ++i)
      regions.push_back(quoted(region_path(thread.region_nodes, i)));
    for (const RegionRecord& region : thread.regions)
      slice(quoted(thread.region_nodes[region.region].name), "region", track, region.start, region.end,
            fmt::format("\"region\": {}", regions[region.region]));
    for (const PhaseRecord& phase : thread.phases)
      slice(quoted(phase.op), category(phase.phase), track, phase.start, phase.end,
            fmt::format("\"op\": {}, \"kernel\": {}, \"region\": {}", quoted(phase.op), quoted(phase.kernel),
                        regions[phase.region]));
    for (const CallRecord& call : thread.calls) write_call(call, track, regions[call.region]);
    for (const DeviceRegion& span : device_regions(thread))
      device_lines_[span.device].regions.push_back(
          {span.start, span.end, quoted(thread.region_nodes[span.region].name), regions[span.region]});
  }

  void write_call(const CallRecord& call, Track track, const std::string& region) {
    const OpTexts& op = texts_of(call.plan);
    const std::string args = fmt::format("{}, \"region\": {}", op.args, region);
    slice(op.name, "dispatch", track, call.start, call.end, call.captured ? args + ", \"captured\": true" : args);
    if (call.device_us < 0) return;
    const DeviceSlice device_slice{call.device_start, call.device_end, call.plan, region};
    if (call.stream.device.is_cuda())
      device_lines_[call.stream.device].streams[call.stream.handle].push_back(device_slice);
    else
      write_device_slice(device_slice, track);
  }

  void write_device_slice(const DeviceSlice& on_device, Track track) {
    const OpTexts& op = texts_of(on_device.plan);
    slice(op.name, on_device.plan == nullptr ? "graph" : "kernel", track, on_device.start, on_device.end,
          fmt::format("{}, \"region\": {}", op.args, on_device.region));
  }

  /// Where two threads launch on one stream, the events of one may lie between those of the other. Slices that overlap
  /// cannot share a line, so such a stream has several.
  template <typename Slice, typename Write>
  void write_lines(std::vector<Slice>& slices, int pid, int& tid, const std::string& name, const Write& write_one) {
    std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    std::vector<ProfileTime> ends;  // of each line
    const int first_tid = tid + 1;
    for (const Slice& one : slices) {
      const auto free = std::find_if(ends.begin(), ends.end(), [&](ProfileTime end) { return end <= one.start; });
      const auto line = static_cast<int>(free - ends.begin());
      const Track track{pid, first_tid + line};
      if (free == ends.end()) {
        ends.push_back(one.end);
        name_track(track, line == 0 ? name : fmt::format("{} ({})", name, line + 1));
        tid = track.tid;
      } else {
        *free = one.end;
      }
      write_one(one, track);
    }
  }

  /// Formatted once for each plan.
  const OpTexts& texts_of(const Plan* plan) {
    OpTexts& texts = texts_[plan];
    if (!texts.name.empty()) return texts;
    if (plan == nullptr) return texts = {"\"graph\"", "\"op\": \"graph\""};
    const ProfiledOp op = describe_plan(*plan);
    texts.name = quoted(op.op);
    texts.args =
        fmt::format(R"("op": {}, "shape": {}, "dtype": {}, "config": {}, "variant": {}, "bytes": {}, "flops": {})",
                    texts.name, quoted(op.shapes), quoted(op.dtypes), quoted(op.config), quoted(op.variant),
                    number(plan->report.cost.bytes), number(plan->report.cost.flops));
    return texts;
  }

  void slice(const std::string& name, const char* cat, Track track, ProfileTime start, ProfileTime end,
             const std::string& args) {
    event(
        fmt::format(R"("ph": "X", "name": {}, "cat": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}})",
                    name, cat, track.pid, track.tid, us_text(start - session_.start_time), us_text(end - start), args));
  }

  void name_process(int pid, const std::string& name) {
    event(fmt::format(R"("ph": "M", "name": "process_name", "pid": {}, "args": {{"name": {}}})", pid, quoted(name)));
  }
  void name_track(Track track, const std::string& name) {
    event(fmt::format(R"("ph": "M", "name": "thread_name", "pid": {}, "tid": {}, "args": {{"name": {}}})", track.pid,
                      track.tid, quoted(name)));
  }

  static std::string us_text(ProfileDuration duration) { return fmt::format("{:.3f}", to_us(duration)); }

  void event(const std::string& fields) {
    text_ += is_first_ ? "\n{" : ",\n{";
    is_first_ = false;
    text_ += fields;
    text_ += '}';
    if (text_.size() >= kFlushBytes) flush();
  }

  void flush() {
    file_.write(text_.data(), text_.size());
    text_.clear();
  }

  const ProfileSession& session_;
  OutputFile file_;
  const int pid_;
  std::string text_;
  bool is_first_ = true;
  std::unordered_map<const Plan*, OpTexts> texts_;
  std::map<Device, DeviceLines> device_lines_;
};

}  // namespace

void write_profile_trace(const ProfileSession& session, const std::string& path) {
  TraceWriter(session, path).write();
}

}  // namespace kiln
