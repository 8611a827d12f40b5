#include "runtime/kernel.hpp"

#include <gtest/gtest.h>

#include "core/errors.hpp"

namespace kiln::test {
namespace {

TEST(LoadKernel, RefusesAnArtifactOfAnotherDeviceType) {
  Artifact artifact;
  artifact.kind = ArtifactKind::cubin;
  artifact.name = "some_kernel";
  artifact.target = {DeviceType::cuda, "sm_90a", {}};
  EXPECT_THROW(load_kernel(artifact, Device::cpu()), UsageError);
}

TEST(LoadKernel, OnAnAbsentDeviceIsADeviceError) {
  Artifact artifact;
  artifact.kind = ArtifactKind::cubin;
  artifact.target = {DeviceType::cuda, "sm_90a", {}};
  EXPECT_THROW(load_kernel(artifact, Device::cuda(99)), DeviceError);
}

}  // namespace
}  // namespace kiln::test
