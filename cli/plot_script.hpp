#pragma once

namespace kiln::cli {

/// The text of python/kiln/plot.py, put into the command by the build.
extern const char* const kPlotScript;

}  // namespace kiln::cli
