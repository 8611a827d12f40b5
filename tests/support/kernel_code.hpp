#pragma once

#include <gtest/gtest.h>

#include "compiler/nvrtc_compiler.hpp"

namespace kiln::test {

/// Compiles for the request's GPU, which need not be here, and refuses spills. Returns what the compiler reports.
inline PtxasReport expect_no_spills(const CompileRequest& request) {
  SCOPED_TRACE(instance_name(request) + " for " + to_string(request.target) + ", " + request.configuration);
  const PtxasReport report = ptxas_report(request);
  EXPECT_EQ(report.spill_store_bytes, 0);
  EXPECT_EQ(report.spill_load_bytes, 0);
  EXPECT_GT(report.registers, 0);
  return report;
}

}  // namespace kiln::test
