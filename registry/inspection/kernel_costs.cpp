#include "registry/inspection/kernel_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/kernel_source.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "compiler/ptx_lines.hpp"
#include "core/text_table.hpp"

namespace kiln {
namespace {

constexpr std::size_t kMostCodeColumns = 60;

struct Column {
  std::string_view name;
  int LineInstructions::* count;
};
constexpr std::array kColumns{Column{"all", &LineInstructions::all},
                              Column{"shared loads", &LineInstructions::shared_loads},
                              Column{"shared stores", &LineInstructions::shared_stores},
                              Column{"shuffles", &LineInstructions::shuffles},
                              Column{"barriers", &LineInstructions::barriers},
                              Column{"global loads", &LineInstructions::global_loads},
                              Column{"global stores", &LineInstructions::global_stores},
                              Column{"copies", &LineInstructions::copies},
                              Column{"products", &LineInstructions::products},
                              Column{"local", &LineInstructions::local_accesses}};

/// Line `number` of a text, from 1, without blanks around it, cut off where it is long.
std::string code_of(std::string_view text, int number) {
  for (int i = 1; i < number; ++i) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  text = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text.size() <= kMostCodeColumns ? std::string(text) : std::string(text.substr(0, kMostCodeColumns)) + "...";
}

}  // namespace

std::string kernel_costs(const CompileRequest& request) {
  const PtxasReport report = ptxas_report(request, /*names_lines=*/true);
  const std::vector<LineInstructions> lines = instructions_by_line(report.ptx);
  const std::vector<KernelSource> sources = transitive_sources(request.source);
  const auto source_of = [&](const LineInstructions& line) {
    return std::find_if(sources.begin(), sources.end(), [&](const KernelSource& source) {
      return !line.file.empty() && line.file.ends_with(source.path);
    });
  };
  std::vector<const Column*> columns;  // those of which there is something
  for (const Column& column : kColumns)
    if (std::any_of(lines.begin(), lines.end(), [&](const auto& line) { return line.*column.count > 0; }))
      columns.push_back(&column);

  std::vector<std::vector<std::string>> rows{{"line"}};
  for (const Column* column : columns) rows.front().emplace_back(column->name);
  rows.front().emplace_back("code");
  for (const LineInstructions& line : lines) {
    std::vector<std::string>& row = rows.emplace_back();
    const auto source = source_of(line);
    const std::string name = std::filesystem::path(line.file).filename().string();
    row.push_back(line.line > 0 ? fmt::format("{}:{}", name, line.line) : "-");
    for (const Column* column : columns)
      row.push_back(line.*column->count > 0 ? std::to_string(line.*column->count) : "");
    row.push_back(line.line == 0 ? "(of no line)" : source != sources.end() ? code_of(source->text, line.line) : "");
  }
  return fmt::format("{}\n{}{} registers, {} bytes spilled{}\n",
                     fmt::format("{}, {}", instance_name(request), to_string(request.target)), format_table(rows),
                     report.registers, report.spill_store_bytes + report.spill_load_bytes,
                     report.serializes_products ? ", products wait for each other" : "");
}

}  // namespace kiln
