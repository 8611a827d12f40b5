#pragma once

namespace kiln::cli {

struct DoctorOptions {
  bool json = false;
};

/// Prints what this machine offers, what is missing and what to do about it. Returns 0 when at least one target works,
/// else 1.
int doctor_command(const DoctorOptions& options);

}  // namespace kiln::cli
