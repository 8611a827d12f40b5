// Boxes between memory and shared memory: swizzles, edges, several blocks at
// once.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/tl/sm90_test.hpp"

namespace kiln::test {
namespace {

constexpr const char* kText = R"(
#include "compiler/tl/cuda/sm90/tensor_map.hpp"
#include "compiler/tl/cuda/sm90/cluster.hpp"
namespace boxes {
using namespace kiln::tl;
using namespace kiln::tl::sm90;

constexpr unsigned char kFiller = 0xee;

// Box blockIdx.x of `places` (x, y, z), as shared memory has it.
template <int BYTES>
KILN_KERNEL void copies(const __grid_constant__ TensorMap map, const unsigned char*, const int32_t* places,
                        unsigned char* out) {
  __shared__ __align__(1024) unsigned char box[BYTES];
  __shared__ uint64_t word;
  const Barrier barrier{shared_address(&word)};
  const int t = threadIdx.x;
  for (int i = t; i < BYTES; i += kNumThreads) box[i] = kFiller;
  writes_ready();
  if (t == 0) {
    prefetch(map);
    barrier.init(1);
    barriers_ready();
  }
  __syncthreads();
  const int32_t* const place = places + 3 * blockIdx.x;
  if (t == 0) {
    barrier.arrive_and_expect(BYTES);
    copy_box(shared_address(box), map, barrier, place[0], place[1], place[2]);
  }
  barrier.wait(0);
  for (int i = t; i < BYTES; i += kNumThreads) out[blockIdx.x * BYTES + i] = box[i];
}

// Every block brings its box to all blocks of the cluster, or to all others: out[block][from].
template <int BYTES, int BLOCKS, bool TO_ITSELF>
__global__ __launch_bounds__(32 * KILN_NUM_WARPS) __cluster_dims__(BLOCKS) void copies_to_blocks(
    const __grid_constant__ TensorMap map, const unsigned char*, const int32_t* places, unsigned char* out) {
  __shared__ __align__(1024) unsigned char box[BLOCKS][(BYTES + 1023) / 1024 * 1024];
  __shared__ uint64_t word;
  const Barrier barrier{shared_address(&word)};
  const int t = threadIdx.x;
  const uint32_t rank = cluster_rank();
  if (!TO_ITSELF)
    for (int i = t; i < BYTES; i += kNumThreads) box[rank][i] = kFiller;
  if (t == 0) {
    barrier.init(1);
    barriers_ready();
  }
  __syncwarp();
  cluster_meet();
  const int32_t* const place = places + 3 * blockIdx.x;
  if (t == 0) {
    barrier.arrive_and_expect(BYTES * (TO_ITSELF ? BLOCKS : BLOCKS - 1));
    copy_box_to_blocks(shared_address(box[rank]), map, barrier, place[0], place[1], place[2],
                       ((1 << BLOCKS) - 1) ^ (TO_ITSELF ? 0 : 1 << rank));
  }
  barrier.wait(0);
  __syncthreads();
  for (int from = 0; from < BLOCKS; ++from)
    for (int i = t; i < BYTES; i += kNumThreads) out[(blockIdx.x * BLOCKS + from) * BYTES + i] = box[from][i];
}

// Boxes of x one after the other, by two buffers in turn. `swizzle`: which bits of an address the three bits of its
// line change.
template <int BYTES>
KILN_KERNEL void stores(const __grid_constant__ TensorMap map, unsigned char*, const int32_t* places,
                        const unsigned char* x, int64_t count, int64_t swizzle) {
  __shared__ __align__(1024) unsigned char buffers[2][(BYTES + 1023) / 1024 * 1024];
  const int t = threadIdx.x;
  for (int box = 0; box < count; ++box) {
    if (t == 0) wait_until_stores_read<1>();
    __syncthreads();
    for (int i = t; i < BYTES; i += kNumThreads) buffers[box % 2][i ^ ((i >> 3) & swizzle)] = x[box * BYTES + i];
    writes_ready();
    __syncthreads();
    if (t == 0) {
      store_box(map, shared_address(buffers[box % 2]), places[3 * box], places[3 * box + 1], places[3 * box + 2]);
      end_store_group();
    }
  }
  if (t == 0) wait_until_stores_read<0>();
}

}  // namespace boxes
)";

struct Swizzle {
  TensorMapSwizzle mode;
  std::int32_t row_bytes;  ///< of a box
  std::int64_t bits;       ///< of an address, that bits 7 to 9 of the address are added to
};
constexpr Swizzle kSwizzles[] = {{TensorMapSwizzle::none, 80, 0},
                                 {TensorMapSwizzle::b32, 32, 0x10},
                                 {TensorMapSwizzle::b64, 64, 0x30},
                                 {TensorMapSwizzle::b128, 128, 0x70}};
constexpr DType kDTypes[] = {DType::u8, DType::u16, DType::u32, DType::u64};

/// What the engine moves at a time, and a number of elements that is no
/// multiple of it.
constexpr std::int64_t kChunkBytes = 16, kOddTail = 3;

using Place = std::array<std::int32_t, 3>;

/// A tensor of three dimensions, with bytes between its rows and its planes
/// that belong to none, and a box of it.
class BoxedTensor {
 public:
  /// Rows of two boxes and `tail` elements.
  BoxedTensor(DType dtype, const Swizzle& swizzle, std::array<std::int32_t, 2> box_rows, std::int64_t tail)
      : swizzle_(swizzle) {
    const auto size = static_cast<std::int32_t>(itemsize_bytes(dtype));
    map_.dtype = dtype;
    map_.rank = 3;
    map_.box = {swizzle.row_bytes / size, box_rows[0], box_rows[1]};
    map_.extents = {2 * map_.box[0] + tail, 9, 4};
    const std::int64_t pitch = row_end_bytes() + kChunkBytes;
    map_.strides_bytes = {pitch, pitch * 10};
    map_.swizzle = swizzle.mode;
  }

  const Swizzle& swizzle() const { return swizzle_; }
  const TensorMap& map() const { return map_; }
  TensorMap& map() { return map_; }
  std::int64_t itemsize() const { return itemsize_bytes(map_.dtype); }
  std::int64_t row_bytes() const { return map_.extents[0] * itemsize(); }
  /// The end of the chunk in which a row ends.
  std::int64_t row_end_bytes() const { return (row_bytes() + kChunkBytes - 1) / kChunkBytes * kChunkBytes; }
  std::int64_t bytes() const { return map_.strides_bytes[1] * map_.extents[2]; }
  std::int64_t box_bytes() const { return std::int64_t{swizzle_.row_bytes} * map_.box[1] * map_.box[2]; }

  /// Calls visit(byte of the tensor, byte of the box as it lies in shared
  /// memory, byte of the box in order) for every byte of the box at `place`;
  /// the first is negative where the box is outside rows of `row_bytes`.
  template <typename Visit>
  void visit(const Place& place, std::int64_t row_bytes, const Visit& visit) const {
    std::int64_t in_order = 0;
    for (std::int32_t z = place[2]; z < place[2] + map_.box[2]; ++z)
      for (std::int32_t y = place[1]; y < place[1] + map_.box[1]; ++y)
        for (std::int32_t byte = 0; byte < swizzle_.row_bytes; ++byte, ++in_order) {
          const std::int64_t x_bytes = place[0] * itemsize() + byte;
          const bool inside =
              x_bytes >= 0 && x_bytes < row_bytes && y >= 0 && y < map_.extents[1] && z >= 0 && z < map_.extents[2];
          visit(inside ? x_bytes + y * map_.strides_bytes[0] + z * map_.strides_bytes[1] : -1,
                in_order ^ ((in_order >> 3) & swizzle_.bits), in_order);
        }
  }

  /// The box at `place` as shared memory has it.
  std::vector<std::uint8_t> box_of(const std::vector<std::uint8_t>& tensor, const Place& place) const {
    std::vector<std::uint8_t> box(static_cast<std::size_t>(box_bytes()));
    visit(place, row_bytes(), [&](std::int64_t from, std::int64_t to, std::int64_t) {
      box[static_cast<std::size_t>(to)] = from < 0 ? std::uint8_t{0} : tensor[static_cast<std::size_t>(from)];
    });
    return box;
  }

 private:
  TensorMap map_;
  Swizzle swizzle_;
};

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments) {
  return {"tests/tl/sm90_tensor_map.hpp", kText, "boxes::" + name, std::move(arguments)};
}

constexpr std::array<std::int32_t, 2> kCopiedRows{5, 3}, kStoredRows{4, 2};
constexpr std::int64_t kBlocks = 2;

Tensor places_tensor(const std::vector<Place>& places) {
  std::vector<std::int32_t> numbers;
  for (const Place& place : places) numbers.insert(numbers.end(), place.begin(), place.end());
  return tensor_of(DType::i32, numbers);
}

class Sm90TensorMap : public Sm90Test {
 protected:
  /// Bytes of the output of `made`, which takes the map, x and `places`;
  /// `out_bytes` of zeros before.
  std::vector<std::uint8_t> copied(TextKernel made, const BoxedTensor& tensor, const std::vector<std::uint8_t>& x,
                                   const std::vector<Place>& places, std::int64_t out_bytes) {
    made.tensor_maps = {tensor.map()};
    std::vector<Tensor> tensors{bits_tensor(x), places_tensor(places),
                                bits_tensor(std::vector<std::uint8_t>(static_cast<std::size_t>(out_bytes)))};
    made.run(Device::cuda(), {static_cast<std::int64_t>(places.size()), 1, 1}, tensors);
    return values_of<std::uint8_t>(tensors[2]);
  }
  /// Stores boxes of random bytes, which do not overlap, at `places`.
  void expect_stored(const BoxedTensor& tensor, const std::vector<Place>& places) {
    const auto count = static_cast<std::int64_t>(places.size());
    const auto boxes = random_bytes(tensor.box_bytes() * count), before = random_bytes(tensor.bytes());
    TextKernel made = kernel("stores", {tensor.box_bytes()});
    made.tensor_maps = {tensor.map()};
    std::vector<Tensor> tensors{bits_tensor(before), places_tensor(places), bits_tensor(boxes)};
    made.run(Device::cuda(), {1, 1, 1}, tensors, {count, tensor.swizzle().bits});
    auto expected = before;
    for (std::int64_t i = 0; i < count; ++i)
      tensor.visit(places[static_cast<std::size_t>(i)], tensor.row_end_bytes(),
                   [&](std::int64_t to, std::int64_t, std::int64_t in_order) {
                     if (to >= 0)
                       expected[static_cast<std::size_t>(to)] =
                           boxes[static_cast<std::size_t>(i * tensor.box_bytes() + in_order)];
                   });
    const auto* const data = tensors[0].data_as<std::uint8_t>();
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(data[i], expected[i]) << "byte " << i;
  }
};

/// Box `index` of `out`.
void expect_box(const std::vector<std::uint8_t>& out, std::int64_t index, const std::vector<std::uint8_t>& expected,
                const Place& place) {
  const auto bytes = static_cast<std::int64_t>(expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + index * bytes))
      << "box " << index << " at (" << place[0] << ", " << place[1] << ", " << place[2] << ")";
}

/// Of the first elements of boxes: everything the engine takes, which is x in
/// steps of 16 bytes.
std::vector<Place> all_places(const BoxedTensor& tensor) {
  const auto& box = tensor.map().box;
  const auto step = static_cast<std::int32_t>(kChunkBytes / tensor.itemsize());
  std::array<std::vector<std::int32_t>, 3> along;
  along[0] = {-box[0] - step,        -box[0],          -step, 0, step, box[0], box[0] + step, 2 * box[0],
              2 * box[0] + 4 * step, 3 * box[0] + step};
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const auto extent = static_cast<std::int32_t>(tensor.map().extents[i]);
    along[i] = {-box[i] - 1, -box[i], 1 - box[i], -1, 0, 1, extent - box[i], extent - 1, extent, extent + 1};
  }
  std::vector<Place> places;
  for (const std::int32_t z : along[2])
    for (const std::int32_t y : along[1])
      for (const std::int32_t x : along[0]) places.push_back({x, y, z});
  return places;
}

class Sm90Boxes : public Sm90TensorMap, public ::testing::WithParamInterface<Swizzle> {
 protected:
  /// Copies boxes at all places that have a negative coordinate, or at those
  /// that have none.
  void expect_copied(bool is_before_the_start) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(name(dtype));
      const BoxedTensor tensor(dtype, GetParam(), kCopiedRows, kOddTail);
      std::vector<Place> places = all_places(tensor);
      std::erase_if(places, [&](const Place& place) {
        return (*std::min_element(place.begin(), place.end()) < 0) != is_before_the_start;
      });
      const auto x = random_bytes(tensor.bytes());
      const auto out = copied(kernel("copies", {tensor.box_bytes()}), tensor, x, places,
                              tensor.box_bytes() * static_cast<std::int64_t>(places.size()));
      for (std::size_t i = 0; i < places.size(); ++i)
        expect_box(out, static_cast<std::int64_t>(i), tensor.box_of(x, places[i]), places[i]);
    }
  }
};

TEST_P(Sm90Boxes, LieSwizzledAndAreZeroBeyondTheEnd) {
  expect_copied(false);
}

TEST_P(Sm90Boxes, AreZeroBeforeTheStart) {
  expect_copied(true);
}

// Rows end with a whole chunk of 16 bytes or within one, which is written to
// its end.
TEST_P(Sm90Boxes, AreStoredToTheEndOfTheTensor) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t tail : {kChunkBytes / itemsize_bytes(dtype), kOddTail}) {
      SCOPED_TRACE(::testing::Message() << name(dtype) << ", tail of " << tail);
      const BoxedTensor tensor(dtype, GetParam(), kStoredRows, tail);
      const auto& box = tensor.map().box;
      const auto& extents = tensor.map().extents;
      // Side by side, to one box beyond the end.
      std::vector<Place> places;
      for (std::int32_t z = 0; z < extents[2] + box[2]; z += box[2])
        for (std::int32_t y = 0; y < extents[1] + box[1]; y += box[1])
          for (std::int32_t x = 0; x < extents[0] + box[0]; x += box[0]) places.push_back({x, y, z});
      expect_stored(tensor, places);
    }
}

INSTANTIATE_TEST_SUITE_P(Swizzles, Sm90Boxes, ::testing::ValuesIn(kSwizzles),
                         [](const auto& test) { return "RowsOf" + std::to_string(test.param.row_bytes) + "Bytes"; });

TEST_F(Sm90TensorMap, RoundsToTf32OnTheWay) {
  BoxedTensor tensor(DType::f32, kSwizzles[3], kCopiedRows, kOddTail);
  tensor.map().rounds_to_tf32 = true;
  std::vector<std::uint8_t> x(static_cast<std::size_t>(tensor.bytes()));
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < x.size(); i += sizeof(float)) {
    const float value = normal(random_);
    std::memcpy(&x[i], &value, sizeof value);
  }
  const Place place{0, 0, 0};
  const auto out = copied(kernel("copies", {tensor.box_bytes()}), tensor, x, {place}, tensor.box_bytes());
  const auto exact = tensor.box_of(x, place);
  for (std::size_t i = 0; i < out.size(); i += sizeof(float)) {
    float before, after;
    std::uint32_t bits;
    std::memcpy(&before, &exact[i], sizeof before);
    std::memcpy(&after, &out[i], sizeof after);
    std::memcpy(&bits, &out[i], sizeof bits);
    EXPECT_EQ(bits & 0x1fffU, 0U) << before;  // 10 bits of 23
    EXPECT_LE(std::abs(after - before), std::ldexp(1.0F, std::ilogb(before) - 11)) << before;
  }
}

TEST_F(Sm90TensorMap, BlocksBringBoxesToOneAnother) {
  for (const Swizzle& swizzle : {kSwizzles[0], kSwizzles[3]}) {
    const BoxedTensor tensor(DType::u16, swizzle, kCopiedRows, kOddTail);
    const auto x = random_bytes(tensor.bytes());
    // Two clusters, whose boxes lie inside and across edges.
    const std::vector<Place> places{{8, 0, 0}, {tensor.map().box[0], 6, 2}, {0, 3, 1}, {2 * tensor.map().box[0], 0, 3}};
    for (const bool to_itself : {true, false}) {
      const std::int64_t bytes = tensor.box_bytes();
      const auto out = copied(kernel("copies_to_blocks", {bytes, kBlocks, to_itself}), tensor, x, places,
                              bytes * kBlocks * static_cast<std::int64_t>(places.size()));
      for (std::int64_t block = 0; block < static_cast<std::int64_t>(places.size()); ++block)
        for (std::int64_t from = 0; from < kBlocks; ++from) {
          const std::int64_t sender = block / kBlocks * kBlocks + from;
          const Place& place = places[static_cast<std::size_t>(sender)];
          const bool sent = to_itself || sender != block;
          expect_box(out, block * kBlocks + from,
                     sent ? tensor.box_of(x, place) : std::vector<std::uint8_t>(static_cast<std::size_t>(bytes), 0xee),
                     place);
        }
    }
  }
}

TEST(Sm90TensorMapCode, StaysInRegisters) {
  std::vector<TextKernel> kernels;
  for (const Swizzle& swizzle : kSwizzles) {
    const std::int64_t copied = BoxedTensor(DType::u8, swizzle, kCopiedRows, kOddTail).box_bytes();
    kernels.push_back(kernel("copies", {copied}));
    kernels.push_back(kernel("stores", {BoxedTensor(DType::u8, swizzle, kStoredRows, kOddTail).box_bytes()}));
    for (const bool to_itself : {true, false})
      kernels.push_back(kernel("copies_to_blocks", {copied, kBlocks, to_itself}));
  }
  expect_compiled_to_registers(kernels);
}

}  // namespace
}  // namespace kiln::test
