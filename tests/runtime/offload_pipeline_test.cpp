#include "runtime/transfer/offload_pipeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"
#include "runtime/transfer/pinned_pool.hpp"

#include "runtime/graph.hpp"
#include "tests/runtime/stream_gate.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

using Direction = OffloadTensor::Direction;

void fill(const TensorView& tensor, int value) {
  std::fill_n(static_cast<std::uint8_t*>(tensor.data), tensor.numel(), static_cast<std::uint8_t>(value));
}

int first_of(const TensorView& tensor) {
  return *static_cast<const std::uint8_t*>(tensor.data);
}
int last_of(const TensorView& tensor) {
  return static_cast<const std::uint8_t*>(tensor.data)[tensor.numel() - 1];
}

/// Every test of what a pipeline does runs on the CPU, and on a GPU where there is one.
class OffloadPipelineOn : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().is_cuda() && device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
    stream_.emplace(GetParam());
    pool_.emplace(GetParam());
  }
  Tensor host(std::int64_t size_bytes, int value) {
    tensors_.push_back(pool_->empty({size_bytes}, DType::u8));
    fill(tensors_.back(), value);
    return tensors_.back();
  }
  Device device() const { return GetParam(); }
  Stream stream() const { return *stream_; }

 private:
  std::optional<OwnedStream> stream_;
  std::optional<PinnedPool> pool_;
  std::vector<Tensor> tensors_;  ///< chunks only borrow them
};
INSTANTIATE_TEST_SUITE_P(Devices, OffloadPipelineOn, testing::Values(Device::cpu(), Device::cuda(0)),
                         [](const auto& device) { return device.param.is_cuda() ? "cuda" : "cpu"; });

TEST_P(OffloadPipelineOn, LoadsComputesAndStoresEveryChunk) {
  for (int depth = 1; depth <= 4; ++depth) {
    std::vector<OffloadChunk> chunks;
    for (int i = 0; i < 9; ++i) {
      const std::int64_t size_bytes = 1000 + 517 * (i % 3);  // chunks need not be of one size
      chunks.push_back({{host(size_bytes, i), Direction::load},
                        {host(size_bytes, 0xEE), Direction::store},
                        {host(64, 100 + i), Direction::load_and_store}});
    }
    OffloadPipeline pipeline(device(), depth);
    std::vector<std::int64_t> order;
    for (int run = 0; run < 2; ++run)
      pipeline.run(
          chunks,
          [&](std::int64_t chunk, std::span<const Tensor> tensors, Stream compute) {
            order.push_back(chunk);
            EXPECT_EQ(tensors[0].device(), device());
            EXPECT_EQ(tensors[0].shape(), chunks[static_cast<std::size_t>(chunk)][0].host.shape);
            copy(tensors[1], tensors[0], compute);
            memset_bytes(tensors[2], static_cast<std::uint8_t>(200 + chunk), compute);
          },
          stream());
    synchronize(stream());
    EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
    for (int i = 0; i < 9; ++i) {
      const OffloadChunk& chunk = chunks[static_cast<std::size_t>(i)];
      EXPECT_EQ(first_of(chunk[1].host), i);
      EXPECT_EQ(last_of(chunk[1].host), i);
      EXPECT_EQ(last_of(chunk[2].host), 200 + i);
      EXPECT_EQ(last_of(chunk[0].host), i) << "what is only loaded is not written";
    }
  }
}

TEST_P(OffloadPipelineOn, AChunkMayLoadWhatAnEarlierOneStores) {
  std::vector<Tensor> values;
  for (int i = 0; i < 6; ++i) values.push_back(host(4096, i == 0 ? 7 : 0));
  std::vector<OffloadChunk> chunks;
  for (std::size_t i = 0; i + 1 < values.size(); ++i)
    chunks.push_back({{values[i], Direction::load}, {values[i + 1], Direction::store}});
  OffloadPipeline pipeline(device());
  pipeline.run(
      chunks,
      [](std::int64_t, std::span<const Tensor> tensors, Stream compute) { copy(tensors[1], tensors[0], compute); },
      stream());
  synchronize(stream());
  EXPECT_EQ(last_of(values.back()), 7);
}

TEST_P(OffloadPipelineOn, ChunksMayBeEmpty) {
  OffloadPipeline pipeline(device());
  int calls = 0;
  const auto count = [&](std::int64_t, std::span<const Tensor> tensors, Stream) {
    EXPECT_TRUE(tensors.empty() || tensors[0].numel() == 0);
    ++calls;
  };
  pipeline.run({}, count, stream());
  EXPECT_EQ(calls, 0);
  const std::vector<OffloadChunk> chunks{{}, {{host(0, 0), Direction::load_and_store}}, {}};
  pipeline.run(chunks, count, stream());
  EXPECT_EQ(calls, 3);
}

TEST_P(OffloadPipelineOn, AnExceptionLeavesNothingRunning) {
  OffloadPipeline pipeline(device(), 2);
  std::vector<OffloadChunk> chunks;
  for (int i = 0; i < 6; ++i) chunks.push_back({{host(1 << 20, 10 + i), Direction::load_and_store}});
  const auto compute_until = [&](std::int64_t limit) {
    return [limit](std::int64_t chunk, std::span<const Tensor> tensors, Stream compute) {
      if (chunk == limit) throw std::runtime_error("stop");
      memset_bytes(tensors[0], static_cast<std::uint8_t>(100 + chunk), compute);
    };
  };
  EXPECT_THROW(pipeline.run(chunks, compute_until(3), stream()), std::runtime_error);
  // No wait here: nothing may be running.
  for (int i = 0; i < 6; ++i) EXPECT_EQ(last_of(chunks[static_cast<std::size_t>(i)][0].host), i < 3 ? 100 + i : 10 + i);
  pipeline.run(chunks, compute_until(-1), stream());
  synchronize(stream());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(last_of(chunks[static_cast<std::size_t>(i)][0].host), 100 + i);
}

TEST_P(OffloadPipelineOn, ATimedOneSaysWhenItsStagesRan) {
  EXPECT_THAT(usage_message([&] { OffloadPipeline(device()).spans(); }),
              HasSubstr("only where it was made to be timed"));
  OffloadPipeline pipeline(device(), 2, offload_schedule, true);
  EXPECT_TRUE(pipeline.spans().empty());
  std::vector<OffloadChunk> chunks;
  for (int i = 0; i < 5; ++i) chunks.push_back({{host(1 << 20, i), Direction::load_and_store}});
  const auto nothing = [](std::int64_t, std::span<const Tensor>, Stream) {};
  for (const std::size_t count : {std::size_t{5}, std::size_t{3}}) {  // the last run's alone
    chunks.resize(count);
    pipeline.run(chunks, nothing, stream());
    const std::vector<OffloadSpan> spans = pipeline.spans();
    const std::vector<OffloadStep> steps = offload_schedule(chunks, 2);
    ASSERT_EQ(spans.size(), steps.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      EXPECT_EQ(spans[i].mark, steps[i].mark);
      EXPECT_LE(0, spans[i].start_us);
      EXPECT_LE(spans[i].start_us, spans[i].end_us);
      const double least_us = spans[i].mark.stage == OffloadStage::compute ? 0 : 1;  // a MiB was copied
      EXPECT_LE(least_us, spans[i].end_us - spans[i].start_us);
      for (const OffloadSpan& span : spans) {
        const auto& after = steps[i].after;
        const bool is_awaited = std::find(after.begin(), after.end(), span.mark) != after.end();
        EXPECT_TRUE(!is_awaited || span.end_us <= spans[i].start_us + 1) << span.end_us << ' ' << spans[i].start_us;
      }
    }
  }
  const auto fails = [](std::int64_t chunk, std::span<const Tensor>, Stream) {
    if (chunk == 1) throw std::runtime_error("stop");
  };
  EXPECT_THROW(pipeline.run(chunks, fails, stream()), std::runtime_error);
  const auto computed = [](const OffloadSpan& span) { return span.mark.stage == OffloadStage::compute; };
  const std::vector<OffloadSpan> before = pipeline.spans();
  EXPECT_EQ(std::count_if(before.begin(), before.end(), computed), 1);
}

TEST_P(OffloadPipelineOn, RefusesBadInputBeforeAnythingRuns) {
  EXPECT_THROW(OffloadPipeline(device(), 0), UsageError);
  OffloadPipeline pipeline(device());
  const Tensor good = host(64, 1);
  const auto never = [](std::int64_t, std::span<const Tensor>, Stream) { FAIL() << "a chunk was computed"; };
  const auto refused = [&](const TensorView& bad) {
    const std::vector<OffloadChunk> chunks{{{good, Direction::load}},
                                           {{good, Direction::load}, {bad, Direction::load}}};
    return usage_message([&] { pipeline.run(chunks, never, stream()); });
  };
  const TensorView strided{good.data(), DType::u8, Device::cpu(), {4}, {2}};
  const TensorView elsewhere = dense_view(good.data(), DType::u8, {4}, Device::cuda(1));
  for (const TensorView& bad : {strided, elsewhere}) EXPECT_THAT(refused(bad), HasSubstr("tensor 1 of chunk 1"));
  if (device().is_cuda()) {
    const Tensor pageable = empty({64}, DType::u8, Device::cpu());
    EXPECT_THAT(refused(pageable), HasSubstr("PinnedPool"));
  }
  const Stream foreign = Stream::default_of(device().is_cuda() ? Device::cpu() : Device::cuda(0));
  EXPECT_THROW(pipeline.run(std::vector<OffloadChunk>{}, never, foreign), UsageError);
}

TEST(OffloadPipeline, OnAnAbsentDeviceIsADeviceError) {
  EXPECT_THROW(OffloadPipeline(Device::cuda(99)), DeviceError);
}

/// Races, each provoked with the wait that rules it out and without: the twin shows that the test sees the race, and
/// that the wait is what rules it out.
class CudaOffloadRace : public testing::TestWithParam<bool> {
 protected:
  static constexpr Device kDevice = Device::cuda(0);
  /// Copies of this size take milliseconds, in which the host enqueues hundreds of other things.
  static constexpr std::int64_t kLongBytes = std::int64_t{256} << 20;
  static constexpr std::int64_t kShortBytes = 4096;

  void SetUp() override {
    if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
    stream_.emplace(kDevice);
    probe_stream_.emplace(kDevice);
    pool_.emplace(kDevice);
    probe_ = host(kShortBytes, 0);
  }
  bool is_guarded() const { return GetParam(); }
  Stream stream() const { return *stream_; }
  Tensor host(std::int64_t size_bytes, int value) {
    tensors_.push_back(pool_->empty({size_bytes}, DType::u8));
    fill(tensors_.back(), value);
    return tensors_.back();
  }

  /// Kiln's schedule, which in the twin lacks the waits of `waiting` for `awaited`.
  OffloadPipeline::Schedule schedule(OffloadStage waiting, OffloadStage awaited) const {
    if (is_guarded()) return offload_schedule;
    return [waiting, awaited](std::span<const OffloadChunk> chunks, int depth) {
      std::vector<OffloadStep> steps = offload_schedule(chunks, depth);
      for (OffloadStep& step : steps)
        if (step.mark.stage == waiting)
          std::erase_if(step.after, [&](const OffloadMark& mark) { return mark.stage == awaited; });
      return steps;
    };
  }

  /// Gives the race its chance: in the twin, until the device's memory at `view` holds `value`; with the guard, which
  /// never lets that happen, for a while.
  void give_time_for(const TensorView& view, int value) {
    if (is_guarded()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return;
    }
    EXPECT_TRUE(comes_true([&] {
      copy_async(probe_, view, *probe_stream_).synchronize();
      return last_of(probe_) == value;
    })) << "the twin did not race";
  }

 private:
  std::optional<OwnedStream> stream_, probe_stream_;
  std::optional<PinnedPool> pool_;
  std::vector<Tensor> tensors_;  ///< chunks only borrow them
  Tensor probe_;
};
INSTANTIATE_TEST_SUITE_P(Guard, CudaOffloadRace, testing::Bool(),
                         [](const auto& guard) { return guard.param ? "present" : "absent"; });

TEST_P(CudaOffloadRace, ComputeBeforeItsLoadIsDone) {
  const Tensor source = host(kLongBytes, 1);
  const Tensor seen = empty({64}, DType::u8, stream());
  const std::vector<OffloadChunk> chunks{{{source, Direction::load}}};
  OffloadPipeline pipeline(kDevice, 1, schedule(OffloadStage::compute, OffloadStage::load));
  const auto look_at_the_end = [&](std::int64_t, std::span<const Tensor> tensors, Stream compute) {
    const TensorView end =
        dense_view(static_cast<std::byte*>(tensors[0].data()) + kLongBytes - 64, DType::u8, {64}, kDevice);
    copy(seen, end, compute);
  };
  pipeline.run(chunks, look_at_the_end, stream());
  to_device(seen, Device::cpu());  // waits for everything: the buffer holds ones now
  fill(source, 2);
  pipeline.run(chunks, look_at_the_end, stream());
  synchronize(stream());
  EXPECT_EQ(last_of(to_device(seen, Device::cpu())), is_guarded() ? 2 : 1);
}

TEST_P(CudaOffloadRace, LoadBeforeTheComputeThatReadsTheBuffer) {
  const std::vector<OffloadChunk> chunks{{{host(kShortBytes, 1), Direction::load}},
                                         {{host(kShortBytes, 2), Direction::load}}};
  const Tensor seen = empty({2, kShortBytes}, DType::u8, stream());
  OffloadPipeline pipeline(kDevice, 1, schedule(OffloadStage::load, OffloadStage::compute));
  std::optional<StreamGate> gate;
  TensorView buffer;
  pipeline.run(
      chunks,
      [&](std::int64_t chunk, std::span<const Tensor> tensors, Stream compute) {
        if (chunk == 0) {
          buffer = tensors[0];
          synchronize(compute);  // its load is done, in the twin too
          gate.emplace(compute);
        }
        copy(dense_view(seen.data_as<std::uint8_t>() + chunk * kShortBytes, DType::u8, {kShortBytes}, kDevice),
             tensors[0], compute);
      },
      stream());
  give_time_for(buffer, 2);
  gate.reset();
  EXPECT_EQ(first_of(to_device(seen, Device::cpu())), is_guarded() ? 1 : 2);
  EXPECT_EQ(last_of(to_device(seen, Device::cpu())), 2);
}

TEST_P(CudaOffloadRace, StoreBeforeItsComputeIsDone) {
  const Tensor result = host(kShortBytes, 0);
  const std::vector<OffloadChunk> chunks{{{result, Direction::store}}};
  OffloadPipeline pipeline(kDevice, 1, schedule(OffloadStage::store, OffloadStage::compute));
  std::optional<StreamGate> gate;
  const auto run = [&](std::uint8_t value, bool is_held) {
    pipeline.run(
        chunks,
        [&](std::int64_t, std::span<const Tensor> tensors, Stream compute) {
          if (is_held) gate.emplace(compute);
          memset_bytes(tensors[0], value, compute);
          if (!is_held) synchronize(compute);
        },
        stream());
  };
  run(1, false);
  synchronize(stream());
  EXPECT_EQ(last_of(result), 1);
  fill(result, 0);
  run(2, true);
  if (is_guarded())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  else
    EXPECT_TRUE(comes_true([&] { return static_cast<volatile std::uint8_t*>(result.data())[kShortBytes - 1] == 1; }));
  gate.reset();
  synchronize(stream());
  EXPECT_EQ(last_of(result), is_guarded() ? 2 : 1);
}

TEST_P(CudaOffloadRace, LoadBeforeTheStoreThatReadsTheBuffer) {
  const Tensor first = host(kShortBytes, 1), second = host(kShortBytes, 2);
  const std::vector<OffloadChunk> chunks{{{first, Direction::load_and_store}}, {{second, Direction::load_and_store}}};
  OffloadPipeline pipeline(kDevice, 1, schedule(OffloadStage::load, OffloadStage::store));
  std::optional<StreamGate> gate;
  TensorView buffer;
  pipeline.run(
      chunks,
      [&](std::int64_t chunk, std::span<const Tensor> tensors, Stream compute) {
        if (chunk != 0) return;
        buffer = tensors[0];
        synchronize(compute);
        gate.emplace(compute);
      },
      stream());
  give_time_for(buffer, 2);
  gate.reset();
  synchronize(stream());
  EXPECT_EQ(last_of(first), is_guarded() ? 1 : 2);
  EXPECT_EQ(last_of(second), 2);
}

TEST_P(CudaOffloadRace, ComputeBeforeTheStoreThatReadsTheBuffer) {
  const Tensor first = host(kLongBytes, 0), second = host(kLongBytes, 0);
  const std::vector<OffloadChunk> chunks{{{first, Direction::store}}, {{second, Direction::store}}};
  OffloadPipeline pipeline(kDevice, 1, schedule(OffloadStage::compute, OffloadStage::store));
  pipeline.run(
      chunks,
      [](std::int64_t chunk, std::span<const Tensor> tensors, Stream compute) {
        memset_bytes(tensors[0], static_cast<std::uint8_t>(1 + chunk), compute);
      },
      stream());
  synchronize(stream());
  EXPECT_EQ(last_of(first), is_guarded() ? 1 : 2);
  EXPECT_EQ(last_of(second), 2);
}

TEST_P(CudaOffloadRace, LoadBeforeTheStoreThatWritesItsSource) {
  const Tensor between = host(kShortBytes, 0);
  const Tensor seen = empty({kShortBytes}, DType::u8, stream());
  const std::vector<OffloadChunk> chunks{{{between, Direction::store}}, {{between, Direction::load}}};
  OffloadPipeline pipeline(kDevice, 2, schedule(OffloadStage::load, OffloadStage::store));
  std::optional<StreamGate> gate;
  TensorView buffer;
  // The buffer of the second chunk holds threes before the run that counts.
  const std::vector<OffloadChunk> before{{{between, Direction::store}}, {{host(kShortBytes, 3), Direction::load}}};
  pipeline.run(before, [](std::int64_t, std::span<const Tensor>, Stream) {}, stream());
  synchronize(stream());
  fill(between, 0);
  pipeline.run(
      chunks,
      [&](std::int64_t chunk, std::span<const Tensor> tensors, Stream compute) {
        if (chunk == 0) {
          gate.emplace(compute);
          memset_bytes(tensors[0], 1, compute);
        } else {
          buffer = tensors[0];
          copy(seen, tensors[0], compute);
        }
      },
      stream());
  give_time_for(buffer, 0);
  gate.reset();
  EXPECT_EQ(last_of(to_device(seen, Device::cpu())), is_guarded() ? 1 : 0);
}

TEST_P(OffloadPipelineOn, RunsInOrderWithTheStreamItWasGiven) {
  // What was on the stream before is done first, what comes after sees all results, and the next run may be on another.
  if (!device().is_cuda()) GTEST_SKIP() << "everything is in order on the CPU";
  OffloadPipeline pipeline(device());
  const OwnedStream other(device());
  const Tensor value = host(1 << 20, 1), result = host(1 << 20, 0);
  const Tensor staged = empty({1 << 20}, DType::u8, stream());
  const auto nothing = [](std::int64_t, std::span<const Tensor>, Stream) {};
  const std::vector<OffloadChunk> back{{{value, Direction::load_and_store}}};
  const std::vector<OffloadChunk> out{{{value, Direction::load}, {result, Direction::store}}};
  const auto pass_on = [](std::int64_t, std::span<const Tensor> tensors, Stream compute) {
    copy(tensors[1], tensors[0], compute);
  };
  pipeline.run(out, pass_on, other);  // more memory than the run before needs is a wait, which the gate would hold up
  synchronize(other);
  EXPECT_EQ(last_of(result), 1);
  {
    StreamGate gate(stream());
    memset_bytes(staged, 9, stream());
    copy(value, staged, stream());
    pipeline.run(back, nothing, stream());  // loads nines
    pipeline.run(out, pass_on, other);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(last_of(result), 1);
  }
  synchronize(other);
  EXPECT_EQ(last_of(result), 9);
}

TEST_P(OffloadPipelineOn, AStreamThatIsCapturedIsRefused) {
  OffloadPipeline pipeline(device());
  const Graph graph = capture(stream(), [&] {
    EXPECT_THROW(pipeline.run(
                     std::vector<OffloadChunk>{}, [](std::int64_t, std::span<const Tensor>, Stream) {}, stream()),
                 UsageError);
  });
}

}  // namespace
}  // namespace kiln::test
