#include "registry/profiling/profile_report.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "registry/plan/plan.hpp"
#include "registry/profiling/profile_session.hpp"
#include "registry/profiling/profiled_op.hpp"

namespace kiln {
namespace {

/// The calls of one row.
struct RowSamples {
  ProfileRow row;
  DType dtype = DType::f32;
  std::vector<double> device_us, host_us;
  double bytes = 0, flops = 0;  ///< of all calls in device_us
};

/// False where there is a time, and no peak to hold it against.
bool fill_rates(RowSamples& samples, const RooflinePeaks& peaks) {
  ProfileRow& row = samples.row;
  const double total_us = row.device_time.total_us;
  if (total_us <= 0) return true;
  row.gb_s = samples.bytes / total_us * 1e-3;
  row.tflop_s = samples.flops / total_us * 1e-6;
  const RooflinePeak peak = peaks(row.device, samples.dtype);
  if (peak.bandwidth_gb_s > 0) row.roofline_share = row.gb_s / peak.bandwidth_gb_s;
  if (peak.tflop_s > 0) row.roofline_share = std::max(row.roofline_share, row.tflop_s / peak.tflop_s);
  return peak.bandwidth_gb_s > 0 || peak.tflop_s > 0;
}

class ReportBuilder {
 public:
  explicit ReportBuilder(const ProfileSession& session) {
    report_.elapsed_us = to_us(session.stop_time - session.start_time);
    report_.threads = session.threads.size();
    report_.device_timing = session.timing.text();
    report_.memory = memory_rows(session.timing.memory());
    for (const ThreadRecords& thread : session.threads) add(thread);
  }

  ProfileReport finish(const RooflinePeaks& peaks) {
    for (auto& [key, samples] : rows_) {
      ProfileRow& row = samples.row;
      row.count = samples.host_us.size();
      row.device_time = distribution_of(std::move(samples.device_us));
      row.host_time = distribution_of(std::move(samples.host_us));
      std::vector<Device>& without_peak = report_.devices_without_peak;
      if (!fill_rates(samples, peaks) &&
          std::find(without_peak.begin(), without_peak.end(), row.device) == without_peak.end())
        without_peak.push_back(row.device);
      ProfileTotal& total = total_of(row.op);
      total.count += row.count;
      total.device_us += row.device_time.total_us;
      total.host_us += row.host_time.total_us;
      report_.rows.push_back(std::move(row));
    }
    std::stable_sort(report_.rows.begin(), report_.rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
      return a.device_time.total_us > b.device_time.total_us;
    });
    std::stable_sort(report_.ops.begin(), report_.ops.end(),
                     [](const ProfileTotal& a, const ProfileTotal& b) { return a.device_us > b.device_us; });
    for (auto& [row, times_us] : regions_) {
      row.time = distribution_of(std::move(times_us));
      report_.regions.push_back(std::move(row));
    }
    report_.graph_device_time = distribution_of(std::move(graph_device_us_));
    report_.graph_host_time = distribution_of(std::move(graph_host_us_));
    return std::move(report_);
  }

 private:
  using RowKey = std::tuple<std::string, std::string, std::string, std::string, std::string, Device>;

  void add(const ThreadRecords& thread) {
    report_.failed += thread.failed;
    report_.dropped += thread.dropped;
    for (const PhaseRecord& phase : thread.phases) add(phase);
    // Threads have numbers of their own for regions of the same path.
    std::vector<std::size_t> regions;
    for (std::uint32_t i = 0; i < thread.region_nodes.size(); ++i)
      regions.push_back(i == 0 ? 0 : region_index(region_path(thread.region_nodes, i)));
    for (const RegionRecord& region : thread.regions)
      regions_[regions[region.region]].second.push_back(to_us(region.end - region.start));
    for (const CallRecord& call : thread.calls) {
      add(call);
      for (std::uint32_t at = call.region; at != 0; at = thread.region_nodes[at].parent) {
        ProfileRegionRow& row = regions_[regions[at]].first;
        ++row.calls;
        row.device_us += std::max(0.0, call.device_us);
      }
    }
  }

  void add(const PhaseRecord& phase) {
    ProfileTotal& total = total_of(phase.op);
    const auto count = [&](double ProfileTotal::* of_op, double ProfileReport::* of_all) {
      total.*of_op += phase.self_us;
      report_.*of_all += phase.self_us;
    };
    switch (phase.phase) {
      case ProfilePhase::plan:
        return count(&ProfileTotal::plan_us, &ProfileReport::plan_us);
      case ProfilePhase::compile:
        return count(&ProfileTotal::compile_us, &ProfileReport::compile_us);
      case ProfilePhase::load:
        return count(&ProfileTotal::load_us, &ProfileReport::load_us);
      case ProfilePhase::tune:
        return count(&ProfileTotal::tune_us, &ProfileReport::tune_us);
    }
  }

  void add(const CallRecord& call) {
    const bool ran_on_gpu = call.stream.device.is_cuda() && !call.captured && !launches_nothing(call.plan);
    if (ran_on_gpu && call.device_us < 0 && !report_.device_timing.empty()) ++report_.untimed;
    if (call.plan == nullptr) {
      graph_host_us_.push_back(call.host_us());
      if (call.device_us >= 0) graph_device_us_.push_back(call.device_us);
      return;
    }
    RowSamples& samples = row_of(*call.plan);
    samples.host_us.push_back(call.host_us());
    if (call.captured) ++samples.row.captured;
    if (call.device_us < 0) return;
    samples.device_us.push_back(call.device_us);
    samples.bytes += call.plan->report.cost.bytes;
    samples.flops += call.plan->report.cost.flops;
  }

  /// Plans that differ in what a row does not show (strides, attributes) share it.
  RowSamples& row_of(const Plan& plan) {
    RowSamples*& found = by_plan_[&plan];
    if (found != nullptr) return *found;
    ProfiledOp op = describe_plan(plan);
    const auto [row, is_new] = rows_.try_emplace(RowKey(op.op, op.dtypes, op.shapes, op.config, op.variant, op.device));
    found = &row->second;
    if (!is_new) return *found;
    found->dtype = op.dtype;
    found->row.op = std::move(op.op);
    found->row.dtypes = std::move(op.dtypes);
    found->row.shapes = std::move(op.shapes);
    found->row.config = std::move(op.config);
    found->row.variant = std::move(op.variant);
    found->row.device = op.device;
    found->row.bytes = plan.report.cost.bytes;
    found->row.flops = plan.report.cost.flops;
    return *found;
  }

  ProfileTotal& total_of(const std::string& op) {
    const auto found =
        std::find_if(report_.ops.begin(), report_.ops.end(), [&](const ProfileTotal& total) { return total.op == op; });
    if (found != report_.ops.end()) return *found;
    report_.ops.emplace_back().op = op;
    return report_.ops.back();
  }

  std::size_t region_index(const std::string& path) {
    const auto [found, is_new] = region_indices_.try_emplace(path, regions_.size());
    if (is_new) regions_.emplace_back().first.path = path;
    return found->second;
  }

  ProfileReport report_;
  std::map<RowKey, RowSamples> rows_;
  std::unordered_map<const Plan*, RowSamples*> by_plan_;
  std::vector<std::pair<ProfileRegionRow, std::vector<double>>> regions_;
  std::unordered_map<std::string, std::size_t> region_indices_;  ///< by path
  std::vector<double> graph_device_us_, graph_host_us_;
};

}  // namespace

ProfileReport make_report(const ProfileSession& session, const RooflinePeaks& peaks) {
  return ReportBuilder(session).finish(peaks);
}

}  // namespace kiln
