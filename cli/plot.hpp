#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kiln::cli {

/// Before any work: whether a plot could be written to `path`. UsageError(value) for a name that does not end in .png,
/// for a place that cannot be written, and saying what to install where python3 or its matplotlib is missing.
void check_plot(const std::string& path);

/// Draws `data` with python/kiln/plot.py, which says what each kind shows. SystemError with Python's own words when it
/// fails.
void plot_png(const std::string& kind, const nlohmann::ordered_json& data, const std::string& path);

}  // namespace kiln::cli
