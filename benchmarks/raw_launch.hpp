#pragma once

#include "core/artifact.hpp"
#include "core/launch.hpp"

/// The floor that dispatch is measured against: the same kernel through the driver or as a plain function, with nothing
/// around it.
class RawLaunch {
 public:
  /// Loads `artifact` with the driver's (or ORC's) own calls.
  RawLaunch(const kiln::Artifact& artifact, const kiln::LaunchGeometry& geometry);
  void operator()(void** parameters) const;

 private:
  kiln::LaunchGeometry geometry_;
  void* function_ = nullptr;  ///< CUfunction, or the entry point on the CPU
  void* launch_ = nullptr;    ///< cuLaunchKernelEx; null on the CPU
};
