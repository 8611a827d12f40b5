// sparse_kv_gather and kv_scatter: every byte of both tensors' memory is compared, the gaps between rows and what lies
// around them included.

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Pairs = std::vector<std::int64_t>;

/// Where rows lie in memory that ends with the last one.
struct RowsPlace {
  std::int64_t rows, row_bytes, stride_bytes, offset_bytes = 0;
  std::int64_t end_bytes() const { return offset_bytes + (rows - 1) * stride_bytes + row_bytes; }
  std::int64_t start_bytes(std::int64_t row) const { return offset_bytes + row * stride_bytes; }
};

/// Bytes that differ from place to place and from `salt` to `salt`.
Bytes patterned(std::int64_t size, std::uint64_t salt) {
  Bytes bytes(static_cast<std::size_t>(size));
  std::uint64_t state = salt * 0x9E3779B97F4A7C15U + 1;
  for (std::uint8_t& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::uint8_t>(state >> 56);
  }
  return bytes;
}

enum class Memory { device, pinned };

Tensor upload(const Bytes& bytes, Device device, Memory memory) {
  const Dims shape{static_cast<std::int64_t>(bytes.size())};
  const bool is_pinned = device.is_cuda() && memory == Memory::pinned;
  const Tensor host = is_pinned ? pinned_pool().empty(shape, DType::u8) : empty(shape, DType::u8, Device::cpu());
  std::memcpy(host.data(), bytes.data(), bytes.size());
  return device.is_cuda() && !is_pinned ? to_device(host, device) : host;
}

Bytes download(const Tensor& tensor, Device device) {
  synchronize(Stream::default_of(device));
  const Tensor host = to_device(tensor, Device::cpu());
  return {host.data_as<std::uint8_t>(), host.data_as<std::uint8_t>() + host.numel()};
}

Tensor rows_of(const Tensor& memory, const RowsPlace& place) {
  return view_of(memory, {place.rows, place.row_bytes}, {place.stride_bytes, 1}, place.offset_bytes);
}

/// Copies pairs of rows and says what is not as it should be; empty: all is well.
std::string run_rows(const std::string& op, Device device, Memory memory, const RowsPlace& dst, const RowsPlace& src,
                     const Pairs& pairs, const Config* config = nullptr) {
  const bool is_gather = op == "sparse_kv_gather";
  const Bytes source = patterned(src.end_bytes(), 1);
  Bytes expected = patterned(dst.end_bytes(), 2);
  const Tensor src_memory = upload(source, device, is_gather ? memory : Memory::device);
  const Tensor dst_memory = upload(expected, device, is_gather ? Memory::device : memory);
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    if (pairs[i] < 0 || pairs[i + 1] < 0) continue;
    std::memcpy(expected.data() + dst.start_bytes(pairs[i + 1]), source.data() + src.start_bytes(pairs[i]),
                static_cast<std::size_t>(src.row_bytes));
  }
  const Dims shape{1, static_cast<std::int64_t>(pairs.size() / 2), 2};
  dispatch_gpu_op(op,
                  {rows_of(dst_memory, dst), rows_of(src_memory, src), make_integers(DType::i32, shape, pairs, device)},
                  {}, {.config = config});
  if (download(src_memory, device) != source) return "the source was written";
  const Bytes got = download(dst_memory, device);
  const auto [wrong, wanted] = std::mismatch(got.begin(), got.end(), expected.begin());
  if (wrong == got.end()) return {};
  return "byte " + std::to_string(wrong - got.begin()) + " is " + std::to_string(*wrong) + ", expected " +
         std::to_string(*wanted);
}

/// Rows of both tensors in an order of its own, duplicates as source and pairs to skip among them.
Pairs scrambled(std::int64_t dst_rows, std::int64_t src_rows) {
  Pairs pairs;
  for (std::int64_t i = 0; i < dst_rows; ++i) {
    pairs.push_back(i % 9 == 4 ? -1 : i * 13 % src_rows);
    pairs.push_back(i % 7 == 3 ? -2 : i * 5 % dst_rows);  // 5 and dst_rows share no divisor
  }
  return pairs;
}

class KvGather : public DevicesTest {
 protected:
  /// body(device, memory) for each of them that differ.
  template <typename Body>
  void for_each_memory(Body body) {
    for (const Device device : devices_)
      for (const Memory memory : {Memory::device, Memory::pinned})
        if (device.is_cuda() || memory == Memory::device) body(device, memory);
  }
};

TEST_F(KvGather, RowsOfAnySizeAnywhere) {
  for_each_memory([](Device device, Memory memory) {
    for (const std::int64_t size : {1, 8, 16, 20, 48, 130, 512, 528, 576, 656, 704, 1040, 1152, 4096})
      for (const std::int64_t gap : {0, 16, 3}) {
        struct {
          std::int64_t dst, src;
        } const offsets[] = {{0, 0}, {4, 0}, {8, 8}, {16, 4}, {0, 8}, {3, 1}};
        for (const auto& [dst, src] : offsets)
          for (const std::string op : {"sparse_kv_gather", "kv_scatter"})
            EXPECT_EQ(run_rows(op, device, memory, {64, size, size + gap, dst}, {41, size, size + gap, src},
                               scrambled(64, 41)),
                      "")
                << op << " on " << to_string(device) << ", " << (memory == Memory::pinned ? "pinned, " : "")
                << "rows of " << size << " bytes, gaps of " << gap << ", offsets " << dst << " and " << src;
      }
  });
}

TEST_F(KvGather, ConfigsOfTheGpuKernel) {
  const std::vector<std::string> configs = {
      "LANES=8 ROWS_IN_FLIGHT=1 PACKETS=6 SORT=1",
      "LANES=4 ROWS_IN_FLIGHT=2 PACKETS=3 SORT=1 SMS=16",
      "LANES=32 ROWS_IN_FLIGHT=4 PACKETS=1 num_warps=8 SMS=2",
      "LANES=16 ROWS_IN_FLIGHT=2 PACKETS=2 ALIGN_LANES=0 LOAD_HINT=1",
      "LANES=8 ROWS_IN_FLIGHT=1 PACKETS=1 num_warps=16 SMS=1 SORT=1",
  };
  for_each_memory([&](Device device, Memory memory) {
    if (!device.is_cuda()) return;
    for (const std::string& text : configs)
      for (const std::int64_t size : {656, 20}) {
        const Config config = parse_config(text);
        for (const std::string op : {"sparse_kv_gather", "kv_scatter"})
          EXPECT_EQ(
              run_rows(op, device, memory, {4096, size, size}, {9001, size, size + 16}, scrambled(4096, 9001), &config),
              "")
              << op << ", " << text << ", rows of " << size << " bytes";
      }
  });
}

TEST_F(KvGather, RowsFromTheEnd) {
  // A row stride may be negative, and a source's rows may all be the same one.
  for (const Device device : devices_) {
    const Tensor src = make_integers(DType::i16, {3, 4}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}, device);
    const Tensor dst = make_integers(DType::i16, {2, 4}, {0, 0, 0, 0, 0, 0, 0, 0}, device);
    const Tensor pairs = make_integers(DType::i64, {1, 2, 2}, {0, 1, 1, 0}, device);
    dispatch_gpu_op("sparse_kv_gather", {dst, view_of(src, {3, 4}, {-4, 1}, 8), pairs});
    EXPECT_EQ(read_bits(dst), (Pairs{10, 11, 12, 13, 20, 21, 22, 23}));
    dispatch_gpu_op("sparse_kv_gather", {dst, view_of(src, {3, 4}, {0, 1}, 4), pairs});
    EXPECT_EQ(read_bits(dst), (Pairs{10, 11, 12, 13, 10, 11, 12, 13}));
  }
}

TEST_F(KvGather, CountsHideWhatLiesBehindThem) {
  constexpr std::int64_t kGarbage = 0x7f7f7f7f;
  for (const Device device : devices_)
    for (const DType index : {DType::i32, DType::i64}) {
      const Tensor src = make_integers(DType::i32, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, device);
      const Tensor dst = make_integers(DType::i32, {5, 2}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, device);
      const Tensor pairs = make_integers(
          index, {4, 2, 2}, {3, 0, kGarbage, kGarbage, kGarbage, 1, 2, kGarbage, 0, 2, 1, 3, 2, kGarbage, kGarbage, 0},
          device);
      const Tensor counts = make_integers(index == DType::i32 ? DType::i64 : DType::i32, {4}, {1, 0, 77, -5}, device);
      // Asked to look at them, it looks at the real ones alone.
      dispatch_gpu_op("sparse_kv_gather", {dst, src, pairs, counts}, {{"check_bounds", true}});
      EXPECT_EQ(read_bits(dst), (Pairs{7, 8, 0, 0, 1, 2, 3, 4, 0, 0}));
    }
}

TEST_F(KvGather, SlotMapFollows) {
  for (const Device device : devices_)
    for (const std::int64_t sort : {0, 1}) {
      if (!device.is_cuda() && sort != 0) continue;
      const Tensor src = make_integers(DType::u8, {5, 1}, {10, 11, 12, 13, 14}, device);
      const Tensor dst = make_integers(DType::u8, {4, 1}, {0, 0, 0, 0}, device);
      const Tensor pairs = make_integers(DType::i32, {2, 3, 2}, {4, 1, -1, 2, 0, 3, 2, -1, 3, 0, 9, 1}, device);
      const Tensor slots = make_integers(DType::i64, {5}, {-1, -2, -3, -4, -5}, device);
      const Config config{{"SORT", sort}};
      const std::vector<Tensor> changed =
          dispatch_gpu_op_all("sparse_kv_gather", std::vector<Tensor>{dst, src, pairs, Tensor{}, slots}, {},
                              {.config = device.is_cuda() ? &config : nullptr});
      ASSERT_EQ(changed.size(), 2);
      EXPECT_EQ(changed[0].data(), dst.data());
      EXPECT_EQ(changed[1].data(), slots.data());
      EXPECT_EQ(read_bits(dst), (Pairs{13, 14, 0, 10}));
      EXPECT_EQ(read_bits(slots), (Pairs{3, -2, -3, 0, 1}));
    }
}

TEST_F(KvGather, NothingToCopy) {
  for (const Device device : devices_) {
    const Tensor src = make_integers(DType::f32, {3, 2}, {1, 2, 3, 4, 5, 6}, device);
    const Tensor dst = make_integers(DType::f32, {3, 2}, {7, 7, 7, 7, 7, 7}, device);
    const std::vector<std::int64_t> before = read_bits(dst);
    for (const bool check : {false, true}) {
      const Attributes attributes{{"check_bounds", check}};
      dispatch_gpu_op("sparse_kv_gather", {dst, src, empty({4, 0, 2}, DType::i32, device)}, attributes);
      dispatch_gpu_op("sparse_kv_gather", {dst, src, empty({0, 4, 2}, DType::i32, device)}, attributes);
      dispatch_gpu_op("sparse_kv_gather", {dst, src, make_integers(DType::i32, {1, 2, 2}, {-1, 0, 0, -1}, device)},
                      attributes);
      EXPECT_EQ(read_bits(dst), before);
    }
    dispatch_gpu_op("sparse_kv_gather", {dst, src, make_integers(DType::i64, {1, 1, 2}, {2, 0}, device)});
    const std::vector<std::int64_t> source = read_bits(src);
    EXPECT_EQ(read_bits(dst), (Pairs{source[4], source[5], before[2], before[3], before[4], before[5]}));
  }
}

TEST_F(KvGather, NansKeepTheirBits) {
  // Quiet and signalling NaNs of every payload's low bits, of a dtype that arithmetic would quieten.
  const Pairs patterns = {0x7f800001, 0x7fc00000, 0xff800123, 0xffffffff, 0x7f812345, 0x7fbfffff, 0x80000000, 1};
  for (const Device device : devices_) {
    const Tensor bits = make_integers(DType::u32, {2, 4}, patterns, device);
    const Tensor target = make_integers(DType::u32, {2, 4}, Pairs(8, 0), device);
    TensorView src = bits.view(), dst = target.view();
    src.dtype = dst.dtype = DType::f32;
    dispatch_gpu_op("kv_scatter", {Tensor(dst, target.owner()), Tensor(src, bits.owner()),
                                   make_integers(DType::i32, {2, 1, 2}, {0, 0, 1, 1}, device)});
    EXPECT_EQ(read_bits(target), patterns);
  }
}

TEST_F(KvGather, ChecksBoundsWhereAsked) {
  for (const Device device : devices_) {
    constexpr std::int64_t kRequests = 40, kTopk = 300;
    const Tensor src = make_integers(DType::u8, {7, 1}, {1, 2, 3, 4, 5, 6, 7}, device);
    const Tensor dst = make_integers(DType::u8, {6, 1}, Pairs(6, 0), device);
    const auto run = [&](const Pairs& pairs) {
      dispatch_gpu_op("sparse_kv_gather", {dst, src, make_integers(DType::i32, {kRequests, kTopk, 2}, pairs, device)},
                      {{"check_bounds", true}});
    };
    Pairs pairs(static_cast<std::size_t>(2 * kRequests * kTopk), -1);
    const auto set = [&](std::int64_t request, std::int64_t place, std::int64_t from, std::int64_t to) {
      pairs[static_cast<std::size_t>(2 * (request * kTopk + place))] = from;
      pairs[static_cast<std::size_t>(2 * (request * kTopk + place) + 1)] = to;
    };
    set(0, 0, 3, 2);
    set(39, 299, 7, 0);
    EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run(pairs); }),
                Says("'indices'[39, 299, 0] is 7", "the rows of 'src'", "less than 7"));
    set(17, 5, 1, 1000);
    set(20, 0, 1'000'000, 0);
    EXPECT_THAT(usage_message(UsageError::Kind::value, [&] { run(pairs); }),
                Says("'indices'[17, 5, 1] is 1000", "the rows of 'dst'", "less than 6"));
    EXPECT_EQ(read_bits(dst), Pairs(6, 0)) << "a refused call wrote";
    set(17, 5, -1, 1000);
    set(20, 0, 1'000'000, -1);
    set(39, 299, 6, 5);
    run(pairs);
    EXPECT_EQ(read_bits(dst), (Pairs{0, 0, 4, 0, 0, 7}));
  }
}

TEST_F(KvGather, RowsThatDoNotExistAreSkipped) {
  for (const Device device : devices_) {
    const Tensor src = make_integers(DType::u8, {2, 1}, {1, 2}, device),
                 dst = make_integers(DType::u8, {2, 1}, {8, 9}, device);
    const Tensor pairs = make_integers(DType::i64, {1, 3, 2}, {2, 0, 0, 2, std::int64_t{1} << 40, 1}, device);
    dispatch_gpu_op("kv_scatter", {dst, src, pairs});
    EXPECT_EQ(read_bits(dst), (Pairs{8, 9}));
  }
}

TEST_F(KvGather, OffsetsBeyondFourGigabytes) {
  constexpr std::int64_t kRowBytes = 656, kRows = (std::int64_t{9} << 29) / kRowBytes;  // 4.5 GiB
  constexpr std::int64_t kFar[] = {kRows - 1, kRows - 2, (std::int64_t{1} << 32) / kRowBytes, 5};
  for (const Device device : devices_) {
    Tensor far;
    if (device.is_cuda()) {
      far = empty({kRows, kRowBytes}, DType::u8, device);
    } else {  // memory that is there once it is written
      const auto size = static_cast<std::size_t>(kRows * kRowBytes);
      void* const memory =
          mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      ASSERT_NE(memory, MAP_FAILED);
      far = {dense_view(memory, DType::u8, {kRows, kRowBytes}),
             std::shared_ptr<void>(memory, [size](void* mapped) { munmap(mapped, size); })};
    }
    const Bytes rows = patterned(4 * kRowBytes, 3);
    const Tensor near = upload(rows, device, Memory::device),
                 back = upload(Bytes(rows.size(), 0), device, Memory::device);
    Pairs out, in;
    for (std::int64_t i = 0; i < 4; ++i) {
      out.insert(out.end(), {i, kFar[i]});
      in.insert(in.end(), {kFar[i], i});
    }
    const RowsPlace place{4, kRowBytes, kRowBytes};
    dispatch_gpu_op("kv_scatter", {far, rows_of(near, place), make_integers(DType::i32, {2, 2, 2}, out, device)});
    dispatch_gpu_op("sparse_kv_gather", {rows_of(back, place), far, make_integers(DType::i64, {1, 4, 2}, in, device)});
    EXPECT_EQ(download(back, device), rows) << to_string(device);
  }
}

TEST_F(KvGather, SharedMemoryIsRefused) {
  for (const Device device : devices_) {
    const Tensor rows = make_integers(DType::u8, {8, 4}, Pairs(32, 1), device);
    const Tensor pairs = make_integers(DType::i32, {1, 1, 2}, {0, 1}, device);
    EXPECT_THAT(
        usage_message(UsageError::Kind::value, [&] { dispatch_gpu_op("sparse_kv_gather", {rows, rows, pairs}); }),
        Says("'dst'", "'src'"));
  }
}

TEST_F(KvGather, PageableMemoryIsRefused) {
  for (const Device device : devices_) {
    if (!device.is_cuda()) continue;
    const Tensor pageable = make_integers(DType::u8, {4, 16}, Pairs(64, 1), Device::cpu());
    const Tensor on_gpu = make_integers(DType::u8, {4, 16}, Pairs(64, 2), device);
    const Tensor pairs = make_integers(DType::i32, {1, 1, 2}, {0, 1}, device);
    EXPECT_THAT(
        usage_message(UsageError::Kind::value, [&] { dispatch_gpu_op("sparse_kv_gather", {on_gpu, pageable, pairs}); }),
        HasSubstr("page-locked"));
    EXPECT_THAT(
        usage_message(UsageError::Kind::value, [&] { dispatch_gpu_op("kv_scatter", {pageable, on_gpu, pairs}); }),
        HasSubstr("page-locked"));
    // The other side is the GPU's own in either op.
    EXPECT_THAT(
        usage_message(UsageError::Kind::type, [&] { dispatch_gpu_op("sparse_kv_gather", {pageable, on_gpu, pairs}); }),
        Says("'dst'", "cpu"));
    const Tensor host_pairs = make_integers(DType::i32, {1, 1, 2}, {0, 1}, Device::cpu());
    EXPECT_THAT(usage_message(UsageError::Kind::type,
                              [&] { dispatch_gpu_op("sparse_kv_gather", {on_gpu, on_gpu, host_pairs}); }),
                HasSubstr("'indices'"));
  }
}

}  // namespace
}  // namespace kiln::test
