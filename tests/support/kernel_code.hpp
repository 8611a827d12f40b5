#pragma once

#include <gtest/gtest.h>

#include "compiler/nvrtc_compiler.hpp"

namespace kiln::test {

/// Compiles for the request's GPU, which need not be here, and refuses spills of more than `most_bytes`. Returns what
/// the compiler reports.
inline PtxasReport expect_few_spills(const CompileRequest& request, std::int64_t most_bytes) {
  SCOPED_TRACE(instance_name(request) + " for " + to_string(request.target) + ", " + request.configuration);
  const PtxasReport report = ptxas_report(request);
  EXPECT_LE(report.spill_store_bytes, most_bytes);
  EXPECT_LE(report.spill_load_bytes, most_bytes);
  EXPECT_GT(report.registers, 0);
  return report;
}
inline PtxasReport expect_no_spills(const CompileRequest& request) {
  return expect_few_spills(request, 0);
}

}  // namespace kiln::test
