#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "core/errors.hpp"
#include "tests/support/devices.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>

template <int M, int N, typename T>
KILN_DEVICE auto matrix(T* data) {
  return data + (tl::expand_dims<1>(tl::arange<M>()) * N + tl::expand_dims<0>(tl::arange<N>()));
}

/// out = {x and y by turns along AXIS, that plus x's first rows by turns, its even part, its odd part times 3, and both
/// by turns}.
template <typename T, int M, int N, int AXIS>
KILN_KERNEL void by_turns(const T* x, const T* y, T* out) {
  constexpr int kRows = AXIS == 0 ? 2 * M : M, kColumns = AXIS == 1 ? 2 * N : N, kBoth = 2 * M * N;
  const auto both = tl::interleave<AXIS>(tl::load(matrix<M, N>(x)), tl::load(matrix<M, N>(y)));
  tl::store(matrix<kRows, kColumns>(out), both);
  const auto plain = tl::load(matrix<kRows, kColumns>(static_cast<const T*>(x)));
  tl::store(matrix<kRows, kColumns>(out + kBoth), both + plain);
  const auto [even, odd] = tl::deinterleave<AXIS>(plain);
  tl::store(matrix<M, N>(out + 2 * kBoth), even);
  tl::store(matrix<M, N>(out + 2 * kBoth + M * N), odd * 3);
  tl::store(matrix<kRows, kColumns>(out + 3 * kBoth), tl::interleave<AXIS>(even, odd));
}

/// out = {a row behind the other, halves changed about, sums along the other axis of that}, x of 2 M x N (AXIS 0) or
/// M x 2 N elements.
template <typename T, int M, int N, int AXIS>
KILN_KERNEL void behind(const T* x, const T* y, T* out) {
  constexpr int kRows = AXIS == 0 ? 2 * M : M, kColumns = AXIS == 1 ? 2 * N : N, kBoth = 2 * M * N;
  tl::store(matrix<kRows, kColumns>(out), tl::cat<AXIS>(tl::load(matrix<M, N>(x)), tl::load(matrix<M, N>(y))));
  const auto [first, second] = tl::halves<AXIS>(tl::load(matrix<kRows, kColumns>(x)));
  const auto changed = tl::cat<AXIS>(second, first);
  tl::store(matrix<kRows, kColumns>(out + kBoth), changed);
  tl::store(out + 2 * kBoth + tl::arange<AXIS == 0 ? kRows : kColumns>(), tl::sum<1 - AXIS>(changed));
}

/// out = {x of M x N elements as N x M, transposed; a row of it; its even minus its odd elements}.
template <typename T, int M, int N>
KILN_KERNEL void reshaped(const T* x, T* out) {
  constexpr int kNumel = M * N;
  const auto tile = tl::load(matrix<M, N>(x));
  tl::store(matrix<M, N>(out), tl::trans(tl::reshape<N, M>(tile)));
  const auto row = tl::reshape<kNumel>(tile);
  tl::store(out + kNumel + tl::arange<kNumel>(), row);
  const auto [even, odd] = tl::split(tl::reshape<kNumel / 2, 2>(row));
  tl::store(out + 2 * kNumel + tl::arange<kNumel / 2>(), even - odd);
  const auto places = tl::reshape<M, N>(tl::arange<kNumel>());
  tl::store(out + 3 * kNumel + places, tl::load(x + places, places < kNumel - 1, T(7)));
}

/// out = {x and y as two columns, sums of the rows of that, x * y from the columns, x and y by turns}.
template <typename T, int N>
KILN_KERNEL void joined(const T* x, const T* y, T* out) {
  const auto pairs = tl::join(tl::load(x + tl::arange<N>()), tl::load(y + tl::arange<N>()));
  tl::store(matrix<N, 2>(out), pairs);
  tl::store(out + 2 * N + tl::arange<N>(), tl::sum<1>(pairs));
  const auto [first, second] = tl::split(tl::load(matrix<N, 2>(static_cast<const T*>(out))));
  tl::store(out + 3 * N + tl::arange<N>(), tl::load(x + tl::arange<N>()) * tl::load(y + tl::arange<N>()));
  tl::store(out + 4 * N + tl::arange<2 * N>(), tl::reshape<2 * N>(pairs));
}

/// 4-bit numbers, two to a byte, less 8 and times a scale for each column; low nibbles first along AXIS.
template <int M, int N, int AXIS>
KILN_KERNEL void nibbles(const uint8_t* packed, const float* scales, float* out) {
  constexpr int kRows = AXIS == 0 ? 2 * M : M, kColumns = AXIS == 1 ? 2 * N : N;
  const auto bytes = tl::load(matrix<M, N>(packed));
  const auto numbers = tl::interleave<AXIS>(bytes & 15, bytes >> 4);
  const auto weights = tl::cast<float>(tl::bitcast<int8_t>(numbers)) - 8.0f;
  tl::store(matrix<kRows, kColumns>(out),
            weights * tl::load_like(weights, scales + tl::expand_dims<0>(tl::arange<kColumns>())));
}

/// Rotary embedding of pairs of neighbours, and of halves, of rows x of 2 * N elements by M x N angles.
template <int M, int N>
KILN_KERNEL void rotary(const float* x, const float* cosines, const float* sines, float* pairs, float* halves) {
  const auto tile = tl::load(matrix<M, 2 * N>(x));
  const auto [even, odd] = tl::deinterleave(tile);
  const auto c = tl::load_like(even, matrix<M, N>(cosines));
  const auto s = tl::load_like(even, matrix<M, N>(sines));
  tl::store(matrix<M, 2 * N>(pairs), tl::interleave(even * c - odd * s, odd * c + even * s));
  const auto [first, second] = tl::halves<1>(tile);
  const auto turned = tl::cat<1>(-second, first);
  const auto all_cosines = tl::load(matrix<M, N>(cosines)), all_sines = tl::load(matrix<M, N>(sines));
  tl::store(matrix<M, 2 * N>(halves),
            tile * tl::cat<1>(all_cosines, all_cosines) + turned * tl::cat<1>(all_sines, all_sines));
}

/// Stores and loads of tiles that interleave leaves, at any address and under masks.
template <typename T, int M, int N>
KILN_KERNEL void cut(const T* x, const T* y, T* out, int64_t m, int64_t n, int64_t first) {
  const auto i = tl::expand_dims<1>(tl::arange<M>());
  const auto j = tl::expand_dims<0>(tl::arange<2 * N>());
  const auto mask = (i < m) & (j < n);
  const auto both = tl::interleave(tl::load(matrix<M, N>(x)), tl::load(matrix<M, N>(y)));
  tl::store(out + first + (i * n + j), both + tl::load_like(both, x + first + (i * n + j), mask, T(1)), mask);
}

/// Rows, columns and one number that meet values in the default layout.
template <typename T, int M, int N>
KILN_KERNEL void beside(const T* x, T* out) {
  const auto values = tl::load(matrix<M, N>(x));
  const auto rows = tl::expand_dims<1>(tl::arange<M>());
  const auto columns = tl::expand_dims<0>(tl::arange<N>());
  tl::store(matrix<M, N>(out), values + 3 * tl::load_like(values, x + columns) +
                                   5 * tl::load_like(values, x + rows * N, rows < M - 1, T(7)) +
                                   tl::load_like(values, x + (tl::expand_dims<1>(tl::arange<1>()) + 1)));
}

template <int N>
KILN_KERNEL void bits(const float* x, int32_t* out) {
  const auto whole = tl::bitcast<int32_t>(tl::load(x + tl::arange<N>()));
  tl::store(out + tl::arange<N>(), whole + tl::bitcast<int32_t>(1.0f));
}

#if defined(WRONG)
KILN_KERNEL void wrong(const float* x, float* out) { WRONG; }
#endif
)";

TextKernel kernel(const char* name, std::vector<TemplateArgument> arguments, int num_warps = 4) {
  return {"arrangement.hpp", kKernels, name, std::move(arguments), num_warps};
}

class Arrangement : public TileTest {};

constexpr std::int64_t kShapes[][2] = {{4, 8}, {16, 16}, {2, 256}, {64, 32}, {128, 4}, {1, 64}};

template <typename T>
std::vector<T> ramp(std::size_t count, int first) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(first + static_cast<int>(i * 7 % 8191));
  return values;
}

template <typename T, typename Want>
void expect(const T* out, std::int64_t rows, std::int64_t columns, const char* what, Want want) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      ASSERT_EQ(out[i * columns + j], static_cast<T>(want(i, j))) << what << " at " << i << ", " << j;
}

TEST_P(Arrangement, RowsAndColumnsByTurnsAndOneBehindTheOther) {
  const auto check = [&]<typename T>(T, std::int64_t m, std::int64_t n, std::int64_t axis, int num_warps) {
    SCOPED_TRACE(::testing::Message() << m << "x" << n << ", axis " << axis << ", " << sizeof(T) << " bytes, num_warps "
                                      << num_warps);
    const std::int64_t rows = axis == 0 ? 2 * m : m, columns = axis == 1 ? 2 * n : n, both = 2 * m * n;
    const auto x = ramp<T>(static_cast<std::size_t>(both), 0), y = ramp<T>(static_cast<std::size_t>(both), 99);
    const auto at = [&](const std::vector<T>& values, std::int64_t i, std::int64_t j, std::int64_t width) {
      return values[static_cast<std::size_t>(i * width + j)];
    };
    const auto turns = [&](std::int64_t i, std::int64_t j) {
      return axis == 0 ? at(i % 2 == 0 ? x : y, i / 2, j, n) : at(j % 2 == 0 ? x : y, i, j / 2, n);
    };
    std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(y), bits_tensor(std::vector<T>(x.size() * 4))};
    kernel("by_turns", {unsigned_dtype(sizeof(T)), m, n, axis}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
    const T* out = tensors[2].data_as<T>();
    expect(out, rows, columns, "by turns", turns);
    expect(out + both, rows, columns, "by turns and more",
           [&](auto i, auto j) { return turns(i, j) + at(x, i, j, columns); });
    const auto of = [&](std::int64_t i, std::int64_t j, int part) {
      return axis == 0 ? at(x, 2 * i + part, j, columns) : at(x, i, 2 * j + part, columns);
    };
    expect(out + 2 * both, m, n, "even", [&](auto i, auto j) { return of(i, j, 0); });
    expect(out + 2 * both + m * n, m, n, "odd", [&](auto i, auto j) { return of(i, j, 1) * 3; });
    expect(out + 3 * both, rows, columns, "as before", [&](auto i, auto j) { return at(x, i, j, columns); });

    if (sizeof(T) < 4) return;  // sums below are of 32 bits
    tensors[2] = bits_tensor(std::vector<T>(x.size() * 3));
    kernel("behind", {unsigned_dtype(sizeof(T)), m, n, axis}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
    out = tensors[2].data_as<T>();
    expect(out, rows, columns, "one behind the other",
           [&](auto i, auto j) { return axis == 0 ? at(i < m ? x : y, i % m, j, n) : at(j < n ? x : y, i, j % n, n); });
    const auto changed = [&](std::int64_t i, std::int64_t j) {
      return axis == 0 ? at(x, (i + m) % rows, j, columns) : at(x, i, (j + n) % columns, columns);
    };
    expect(out + both, rows, columns, "halves", changed);
    expect(out + 2 * both, 1, axis == 0 ? rows : columns, "sums", [&](auto, auto place) {
      T sum = 0;
      for (std::int64_t k = 0; k < (axis == 0 ? columns : rows); ++k)
        sum += axis == 0 ? changed(place, k) : changed(k, place);
      return sum;
    });
  };
  for (const auto& [m, n] : kShapes)
    for (const std::int64_t axis : {0, 1})
      for (const int num_warps : some_warps(static_cast<int>(2 * m * n))) {
        check(std::uint32_t{}, m, n, axis, num_warps);
        check(std::uint8_t{}, m, n, axis, num_warps);
      }
}

TEST_P(Arrangement, ReshapedAndJoined) {
  using T = std::uint32_t;
  for (const auto& [m, n] : kShapes)
    for (const int num_warps : some_warps(static_cast<int>(2 * m * n))) {
      SCOPED_TRACE(::testing::Message() << m << "x" << n << ", num_warps " << num_warps);
      const std::int64_t numel = m * n;
      const auto x = ramp<T>(static_cast<std::size_t>(numel), 5), y = ramp<T>(static_cast<std::size_t>(numel), 99);
      std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(std::vector<T>(x.size() * 4))};
      kernel("reshaped", {DType::u32, m, n}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
      const T* out = tensors[1].data_as<T>();
      const auto x_at = [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; };
      const auto y_at = [&](std::int64_t i) { return y[static_cast<std::size_t>(i)]; };
      expect(out, m, n, "transposed", [&](auto i, auto j) { return x_at(j * m + i); });
      expect(out + numel, 1, numel, "row", [&](auto, auto i) { return x_at(i); });
      expect(out + 2 * numel, 1, numel / 2, "columns", [&](auto, auto i) { return x_at(2 * i) - x_at(2 * i + 1); });
      expect(out + 3 * numel, 1, numel, "symbolic", [&](auto, auto i) { return i == numel - 1 ? 7 : x_at(i); });

      tensors = {bits_tensor(x), bits_tensor(y), bits_tensor(std::vector<T>(x.size() * 6))};
      kernel("joined", {DType::u32, numel}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
      out = tensors[2].data_as<T>();
      const auto pair = [&](std::int64_t i, std::int64_t j) { return j == 0 ? x_at(i) : y_at(i); };
      expect(out, numel, 2, "joined", pair);
      expect(out + 2 * numel, 1, numel, "sums", [&](auto, auto i) { return x_at(i) + y_at(i); });
      expect(out + 3 * numel, 1, numel, "split", [&](auto, auto i) { return x_at(i) * y_at(i); });
      expect(out + 4 * numel, numel, 2, "reshaped", pair);
    }
}

TEST_P(Arrangement, NibblesAndRotations) {
  constexpr std::int64_t kM = 32, kN = 64;
  std::vector<std::uint8_t> packed(kM * kN);
  for (auto& byte : packed) byte = static_cast<std::uint8_t>(random_());
  std::vector<float> scales(2 * kN);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(i) - 5;
  for (const std::int64_t axis : {0, 1}) {
    std::vector<Tensor> tensors{bits_tensor(packed), make_f32(scales), make_f32(std::vector<float>(2 * packed.size()))};
    kernel("nibbles", {kM, kN, axis}).run(GetParam(), {1, 1, 1}, tensors);
    const std::int64_t columns = axis == 1 ? 2 * kN : kN;
    expect(tensors[2].data_as<float>(), 2 * kM * kN / columns, columns, "weight", [&](auto i, auto j) {
      const std::uint8_t byte = packed[static_cast<std::size_t>(axis == 0 ? i / 2 * kN + j : i * kN + j / 2)];
      const int number = (axis == 0 ? i : j) % 2 == 0 ? byte & 15 : byte >> 4;
      return static_cast<float>(number - 8) * scales[static_cast<std::size_t>(j)];
    });
  }

  const auto whole_numbers = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random_() % 64) - 32;
    return values;
  };
  const auto x = whole_numbers(2 * kM * kN), c = whole_numbers(kM * kN), s = whole_numbers(kM * kN);
  const std::vector<float> nothing(x.size());
  std::vector<Tensor> tensors{make_f32(x), make_f32(c), make_f32(s), make_f32(nothing), make_f32(nothing)};
  kernel("rotary", {kM, kN}).run(GetParam(), {1, 1, 1}, tensors);
  const auto at = [&](const std::vector<float>& values, std::int64_t i, std::int64_t j, std::int64_t width) {
    return values[static_cast<std::size_t>(i * width + j)];
  };
  expect(tensors[3].data_as<float>(), kM, 2 * kN, "pairs", [&](auto i, auto j) {
    const float own = at(x, i, j, 2 * kN), other = at(x, i, j ^ 1, 2 * kN);
    return own * at(c, i, j / 2, kN) + (j % 2 == 0 ? -other : other) * at(s, i, j / 2, kN);
  });
  expect(tensors[4].data_as<float>(), kM, 2 * kN, "halves", [&](auto i, auto j) {
    const float own = at(x, i, j, 2 * kN), other = at(x, i, (j + kN) % (2 * kN), 2 * kN);
    return own * at(c, i, j % kN, kN) + (j < kN ? -other : other) * at(s, i, j % kN, kN);
  });
}

TEST_P(Arrangement, MasksAndAddresses) {
  using T = std::uint16_t;
  constexpr std::int64_t kM = 16, kN = 64;
  const auto x = ramp<T>(4 * kM * kN, 3), y = ramp<T>(kM * kN, 500);
  for (const auto& [m, n, first] : {std::tuple{16, 128, 0}, {16, 128, 1}, {13, 101, 0}, {16, 96, 8}, {0, 128, 0}}) {
    SCOPED_TRACE(::testing::Message() << m << "x" << n << " from " << first);
    std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(y), bits_tensor(std::vector<T>(x.size(), 77))};
    kernel("cut", {DType::u16, kM, kN}).run(GetParam(), {1, 1, 1}, tensors, {m, n, first});
    const T* out = tensors[2].data_as<T>();
    for (std::int64_t place = 0; place < 4 * kM * kN; ++place) {
      const std::int64_t i = (place - first) / n, j = (place - first) % n;
      const bool inside = place >= first && i < m;
      const T by_turns = inside ? (j % 2 == 0 ? x : y)[static_cast<std::size_t>(i * kN + j / 2)] : T{};
      ASSERT_EQ(out[place], inside ? static_cast<T>(by_turns + x[static_cast<std::size_t>(place)]) : T{77})
          << i << ", " << j;
    }
  }
}

TEST_P(Arrangement, RowsColumnsAndOneNumberBesideValues) {
  for (const auto& [m, n] : kShapes)
    for (const int num_warps : {1, 4}) {
      SCOPED_TRACE(::testing::Message() << m << "x" << n << ", num_warps " << num_warps);
      const auto x = ramp<std::uint32_t>(static_cast<std::size_t>(m * n), 5);
      std::vector<Tensor> tensors{bits_tensor(x), bits_tensor(std::vector<std::uint32_t>(x.size()))};
      kernel("beside", {DType::u32, m, n}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
      const auto at = [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; };
      expect(tensors[1].data_as<std::uint32_t>(), m, n, "beside",
             [&](auto i, auto j) { return at(i * n + j) + 3 * at(j) + 5 * (i < m - 1 ? at(i * n) : 7) + at(1); });
    }
}

TEST(ArrangementOnGpus, RowsColumnsAndOneNumberCompileWithoutLocalMemory) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  for (const auto& [m, n] : kShapes) {
    const PtxasReport report = ptxas_report(kernel("beside", {DType::u32, m, n}).request(parse_cuda_target("sm_90a")));
    EXPECT_EQ(report.stack_bytes, 0) << m << "x" << n;
  }
}

TEST_P(Arrangement, Bits) {
  std::vector<float> x(64);
  std::iota(x.begin(), x.end(), -20.5f);
  std::vector<Tensor> tensors{make_f32(x), bits_tensor(std::vector<std::uint32_t>(64))};
  kernel("bits", {std::int64_t{64}}).run(GetParam(), {1, 1, 1}, tensors);
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(tensors[1].data_as<std::uint32_t>()[i], std::bit_cast<std::uint32_t>(x[i]) + 0x3f800000u);
}

TEST_P(Arrangement, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"tl::reshape<4, 4>(tl::arange<32>())", "as many elements as the tile"},
      {"tl::join(tl::zeros<float, 4, 4>(), tl::zeros<float, 4, 4>())", "interleave gives [M, 2 * N]"},
      {"tl::split(tl::zeros<float, 4, 8>())", "a tile of two columns, [N, 2]"},
      {"tl::interleave(tl::zeros<float, 4>(), tl::zeros<int, 4>())", "both tiles have one dtype"},
      {"tl::cat<1>(tl::zeros<float, 4, 4>(), tl::zeros<float, 8, 4>())", "as long along the axis"},
      {"tl::cat<1>(tl::zeros<float, 4>(), tl::zeros<float, 4>())", "the axis of a tile is 0"},
      {"tl::bitcast<double>(tl::zeros<float, 4>())", "the same number of bits"},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    TextKernel wrong = kernel("wrong", {});
    wrong.text = "#define WRONG " + std::string(text) + "\n" + kKernels;
    const auto compile = [&wrong] { wrong.load(GetParam()); };
    EXPECT_THAT(compile, ::testing::ThrowsMessage<CompileError>(::testing::HasSubstr(message)));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Arrangement, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Arrangement);

TEST(ArrangementOnGpus, StaysInRegisters) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  for (const char* arch : {"sm_80", "sm_90a", "sm_120"}) {
    SCOPED_TRACE(arch);
    const Target target = parse_cuda_target(arch);
    for (const std::int64_t axis : {0, 1}) {
      const TextKernel unpack = kernel("nibbles", {std::int64_t{32}, std::int64_t{64}, axis});
      // Its loads have ways for tiles that are not aligned, which are functions of their own.
      const std::string ptx = compiler_for(DeviceType::cuda).emit(unpack.request(target), EmitKind::ptx);
      const std::size_t begin = ptx.find(".entry");
      const std::string entry = ptx.substr(begin, ptx.find("\n}", begin) - begin);
      EXPECT_EQ(entry.find("bar.sync"), std::string::npos) << "nibbles stay with the thread that loaded their byte";
    }
    for (const TextKernel& one :
         {kernel("by_turns", {DType::u8, std::int64_t{64}, std::int64_t{32}, std::int64_t{1}}),
          kernel("behind", {DType::f32, std::int64_t{64}, std::int64_t{32}, std::int64_t{1}}),
          kernel("reshaped", {DType::f32, std::int64_t{64}, std::int64_t{32}}),
          kernel("joined", {DType::f32, std::int64_t{256}}), kernel("rotary", {std::int64_t{32}, std::int64_t{64}}),
          kernel("cut", {DType::f16, std::int64_t{16}, std::int64_t{64}})}) {
      SCOPED_TRACE(one.name);
      const PtxasReport report = ptxas_report(one.request(target));
      EXPECT_EQ(report.stack_bytes, 0);
      EXPECT_EQ(report.spill_store_bytes, 0);
    }
  }
}

}  // namespace
}  // namespace kiln::test
