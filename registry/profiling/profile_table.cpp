#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/quantity.hpp"
#include "core/text_table.hpp"
#include "registry/profiling/profile_report.hpp"

namespace kiln {
namespace {

using TextRows = std::vector<std::vector<std::string>>;

std::string time_text(double us, bool is_known = true) {
  return is_known ? us == 0 ? "0" : format_duration_us(us) : "-";
}

std::string number_text(double value) {
  return value > 0 ? fmt::format("{:.4g}", value) : "-";
}

TextRows call_rows(const ProfileReport& report) {
  TextRows rows{{"op", "device", "dtypes", "shapes", "config", "calls", "device time", "mean", "min", "p50", "p99",
                 "max", "host mean", "p50", "GB/s", "TFLOP/s", "of roofline"}};
  for (const ProfileRow& row : report.rows) {
    const TimeDistribution& device = row.device_time;
    const bool is_known = device.count > 0;
    rows.push_back(
        {row.op, to_string(row.device), row.dtypes, row.shapes, row.config.empty() ? "-" : row.config,
         row.captured == 0 ? fmt::format("{}", row.count) : fmt::format("{} ({} captured)", row.count, row.captured),
         time_text(device.total_us, is_known), time_text(device.mean_us, is_known), time_text(device.min_us, is_known),
         time_text(device.p50_us, is_known), time_text(device.p99_us, is_known), time_text(device.max_us, is_known),
         time_text(row.host_time.mean_us), time_text(row.host_time.p50_us), number_text(row.gb_s),
         number_text(row.tflop_s), row.roofline_share > 0 ? fmt::format("{:.1f}%", 100 * row.roofline_share) : "-"});
  }
  if (const TimeDistribution &device = report.graph_device_time, &host = report.graph_host_time; host.count > 0) {
    const bool is_known = device.count > 0;
    rows.push_back({"graph", "", "", "", "", fmt::format("{}", host.count), time_text(device.total_us, is_known),
                    time_text(device.mean_us, is_known), time_text(device.min_us, is_known),
                    time_text(device.p50_us, is_known), time_text(device.p99_us, is_known),
                    time_text(device.max_us, is_known), time_text(host.mean_us), time_text(host.p50_us)});
  }
  return rows;
}

TextRows op_rows(const ProfileReport& report) {
  TextRows rows{{"op", "calls", "device time", "host time", "planning", "compiling", "loading", "tuning"}};
  for (const ProfileTotal& op : report.ops)
    rows.push_back({op.op, fmt::format("{}", op.count), time_text(op.device_us), time_text(op.host_us),
                    time_text(op.plan_us), time_text(op.compile_us), time_text(op.load_us), time_text(op.tune_us)});
  return rows;
}

TextRows region_rows(const ProfileReport& report) {
  TextRows rows{{"region", "times", "total", "mean", "min", "p50", "p99", "max", "calls inside", "device time"}};
  for (const ProfileRegionRow& region : report.regions) {
    const TimeDistribution& time = region.time;
    rows.push_back({region.path, fmt::format("{}", time.count), time_text(time.total_us), time_text(time.mean_us),
                    time_text(time.min_us), time_text(time.p50_us), time_text(time.p99_us), time_text(time.max_us),
                    fmt::format("{}", region.calls), time_text(region.device_us)});
  }
  return rows;
}

TextRows memory_rows_of(const ProfileReport& report) {
  TextRows rows{{"copies and sets", "device", "times", "bytes", "total", "mean", "min", "p50", "p99", "max", "GB/s"}};
  for (const ProfileMemoryRow& row : report.memory)
    rows.push_back({row.name, to_string(row.device), fmt::format("{}", row.time.count),
                    format_bytes(static_cast<std::int64_t>(row.bytes)), time_text(row.time.total_us),
                    time_text(row.time.mean_us), time_text(row.time.min_us), time_text(row.time.p50_us),
                    time_text(row.time.p99_us), time_text(row.time.max_us), number_text(row.gb_s)});
  return rows;
}

}  // namespace

std::string to_string(const ProfileReport& report) {
  std::size_t calls = 0;
  for (const ProfileRow& row : report.rows) calls += row.count;
  std::string text = fmt::format("profile of {}: {} on {}\n", format_duration_us(report.elapsed_us),
                                 format_count(static_cast<std::int64_t>(calls), "call"),
                                 format_count(static_cast<std::int64_t>(report.threads), "thread"));
  if (calls + report.graph_host_time.count > 0) text += format_table(call_rows(report), 2);
  if (!report.ops.empty()) text += '\n' + format_table(op_rows(report), 2);
  if (!report.regions.empty()) text += '\n' + format_table(region_rows(report), 2);
  if (!report.memory.empty()) text += '\n' + format_table(memory_rows_of(report), 2);
  for (const Device device : report.devices_without_peak)
    text += fmt::format(
        "  of roofline: no peak of {0} is known; measured_peak(\"{0}\") before the report measures it (of the command "
        "--measured-peak)\n",
        to_string(device));
  if (!report.device_timing.empty()) text += fmt::format("  device times {}\n", report.device_timing);
  if (report.untimed > 0)
    text +=
        fmt::format("  {} on GPUs {} no device time\n", format_count(static_cast<std::int64_t>(report.untimed), "call"),
                    report.untimed == 1 ? "has" : "have");
  if (report.failed > 0)
    text +=
        fmt::format("  {} failed and {} not counted\n", format_count(static_cast<std::int64_t>(report.failed), "call"),
                    report.failed == 1 ? "is" : "are");
  if (report.dropped > 0)
    text += fmt::format("  {} beyond ProfilerOptions::max_records {} left out\n",
                        format_count(static_cast<std::int64_t>(report.dropped), "record"),
                        report.dropped == 1 ? "is" : "are");
  return text;
}

}  // namespace kiln
