#include "registry/plan/kernel_cache.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace kiln::test {
namespace {

class NoKernel : public Kernel {
 public:
  void launch(const LaunchGeometry&, void* const*, Stream) const override {}
  KernelResources resources() const override { return {}; }
};

TEST(KernelCache, WhatStaysLoadedIsLoadedOnce) {
  for (const bool stays_loaded : {true, false}) {
    KernelCache cache;
    int loads = 0;
    const auto get = [&] {
      return cache.get(ContentHasher().field("a kernel").digest(), [&] {
        ++loads;
        LoadedKernel loaded;
        loaded.kernel = std::make_shared<const NoKernel>();
        loaded.stays_loaded = stays_loaded;
        return loaded;
      });
    };
    auto first = get();
    EXPECT_EQ(get(), first);
    EXPECT_EQ(loads, 1) << "while a plan uses it there is one in any case";
    const std::weak_ptr<const LoadedKernel> former = first;
    first.reset();
    EXPECT_EQ(former.expired(), !stays_loaded);
    get();
    EXPECT_EQ(loads, stays_loaded ? 1 : 2);
  }
}

}  // namespace
}  // namespace kiln::test
