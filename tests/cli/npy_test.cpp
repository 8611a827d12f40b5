#include "cli/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "cli/input_file_error.hpp"
#include "core/errors.hpp"
#include "runtime/memory.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::cli {
namespace {

using testing::HasSubstr;

/// An .npy file put together by hand, independently of the writer under test.
std::string npy_bytes(const std::string& header, const std::string& data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return bytes + header + data;
}

std::string header(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

std::string floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

class NpyTest : public testing::Test {
 protected:
  std::string save(const std::string& bytes) {
    const std::string path = directory_.file("a.npy");
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string load(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  Tensor read(const std::string& bytes) { return read_npy(save(bytes)); }
  /// The message of the error that reading `bytes` must give.
  std::string error_of(const std::string& bytes) {
    const std::string message = test::error_message<InputFileError>([&] { read(bytes); });
    EXPECT_THAT(message, HasSubstr("a.npy"));
    return message;
  }
  test::TemporaryDirectory directory_;
};

TEST_F(NpyTest, ReadsEveryFormatVersion) {
  for (const int version : {1, 2, 3}) {
    const Tensor tensor = read(npy_bytes(header("<f4", "(2, 3)"), floats({1, 2, 3, 4, 5, 6}), version));
    EXPECT_EQ(tensor.dtype(), DType::f32);
    EXPECT_EQ(tensor.shape(), (Dims{2, 3}));
    EXPECT_EQ(std::vector<float>(tensor.data_as<float>(), tensor.data_as<float>() + 6),
              (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

TEST_F(NpyTest, ReadsHeadersThatNumPyWouldAccept) {
  const std::string data = floats({1, 2});
  for (const std::string text : {"{'shape': (2,), 'descr': '<f4', 'fortran_order': False}",
                                 "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2,)}   \n",
                                 "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }\n",
                                 "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }",
                                 "  { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2 ) } "})
    EXPECT_EQ(read(npy_bytes(text, data)).numel(), 2) << text;
}

TEST_F(NpyTest, ReadsScalarsAndEmptyArrays) {
  const Tensor scalar = read(npy_bytes(header("<f4", "()"), floats({7})));
  EXPECT_EQ(scalar.shape().size(), 0);
  EXPECT_EQ(scalar.data_as<float>()[0], 7);
  const Tensor none = read(npy_bytes(header("<f8", "(3, 0, 4)", "True"), ""));
  EXPECT_EQ(none.shape(), (Dims{3, 0, 4}));
  EXPECT_EQ(none.dtype(), DType::f64);
}

TEST_F(NpyTest, ReadsEveryDtypeNumPyHas) {
  for (const auto& [descr, dtype] : {std::pair{"<f8", DType::f64},
                                     {"<f4", DType::f32},
                                     {"<f2", DType::f16},
                                     {"<i8", DType::i64},
                                     {"<i4", DType::i32},
                                     {"<i2", DType::i16},
                                     {"|i1", DType::i8},
                                     {"<u8", DType::u64},
                                     {"<u4", DType::u32},
                                     {"<u2", DType::u16},
                                     {"|u1", DType::u8},
                                     {"|b1", DType::bool_}}) {
    const std::string data(static_cast<std::size_t>(3 * itemsize_bytes(dtype)), '\x01');
    const Tensor tensor = read(npy_bytes(header(descr, "(3,)"), data));
    EXPECT_EQ(tensor.dtype(), dtype) << descr;
    EXPECT_EQ(std::memcmp(tensor.data(), data.data(), data.size()), 0) << descr;
  }
}

TEST_F(NpyTest, NormalisesBooleans) {
  const Tensor tensor = read(npy_bytes(header("|b1", "(3,)"), std::string("\x00\x02\xff", 3)));
  EXPECT_EQ(std::memcmp(tensor.data(), "\x00\x01\x01", 3), 0);
}

TEST_F(NpyTest, ReadsFromAPipe) {
  const std::string path = directory_.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto feed = [&](const std::string& bytes) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::ofstream(path, std::ios::binary) << bytes;
      ::_exit(0);
    }
  };
  feed(npy_bytes(header("<f4", "(2,)"), floats({3, 4})));
  EXPECT_EQ(read_npy(path).data_as<float>()[1], 4);
  feed(npy_bytes(header("<f4", "(2,)"), floats({3})));
  EXPECT_THROW(read_npy(path), InputFileError);
}

TEST_F(NpyTest, RefusesWhatIsNotAnArray) {
  EXPECT_THAT(error_of(""), HasSubstr("empty"));
  EXPECT_THAT(error_of("PK\x03\x04 a zip file"), HasSubstr("not an .npy file"));
  EXPECT_THAT(error_of("\x93NUM"), HasSubstr("not an .npy file"));
  EXPECT_THAT(error_of(std::string("\x93NUMPY\x04\x00", 8) + "xxxx"), HasSubstr("version is 4.0"));
  EXPECT_THAT(error_of(npy_bytes("[1, 2]", "")), HasSubstr("malformed"));
  EXPECT_THAT(error_of(npy_bytes("{'descr': '<f4'}", "")), HasSubstr("lacks"));
  EXPECT_THAT(error_of(npy_bytes("{'descr': '<f4', 'descr': '<f4'}", "")), HasSubstr("repeated"));
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "(2,)") + "x", floats({1, 2}))), HasSubstr("malformed"));
  EXPECT_THROW(read_npy(directory_.file("absent.npy")), InputFileError);
  EXPECT_THROW(read_npy(directory_.path().string()), InputFileError);
}

TEST_F(NpyTest, RefusesLayoutsItCannotRead) {
  EXPECT_THAT(error_of(npy_bytes(header(">f4", "(2,)"), floats({1, 2}))), HasSubstr("big-endian"));
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "(2, 2)", "True"), floats({1, 2, 3, 4}))), HasSubstr("Fortran"));
  EXPECT_THAT(error_of(npy_bytes(header("|O", "(2,)"), "pickle")), HasSubstr("object array"));
  EXPECT_THAT(error_of(npy_bytes("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}", "")),
              HasSubstr("structured"));
  for (const std::string descr : {"<c8", "<U4", "<M8[ns]", "|V2", "f4", "=f4", "|f4", "<f3", "", "<"})
    EXPECT_THAT(error_of(npy_bytes(header(descr, "(2,)"), std::string(16, 'x'))), HasSubstr("no equal of its dtype"))
        << descr;
}

TEST_F(NpyTest, RefusesSizesThatLie) {
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "(3,)"), floats({1, 2}))), HasSubstr("truncated"));
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "(1,)"), floats({1, 2}))), HasSubstr("bytes after the array"));
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "()"), "")), HasSubstr("truncated"));
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "(4611686018427387904, 4)"), "")), HasSubstr("overflows"));
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "(0, 4611686018427387904, 4)"), "")), HasSubstr("overflows"));
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "(99999999999999999999,)"), "")), HasSubstr("64 bits"));
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "(-1,)"), "")), HasSubstr("negative"));
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "(1000000000000,)"), "")), HasSubstr("truncated"));
  EXPECT_THAT(error_of(npy_bytes(header("<f4", "(1,1,1,1,1,1,1,1,1,1,1,1,1)"), floats({1}))),
              HasSubstr("13 dimensions"));
  EXPECT_THAT(error_of(std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12)), HasSubstr("limit"));
  const std::string whole = npy_bytes(header("<f4", "(2,)"), floats({1, 2}));
  for (std::size_t length = 0; length < whole.size(); ++length) error_of(whole.substr(0, length));
}

TEST_F(NpyTest, WritesWhatItReads) {
  std::mt19937 random(1);
  for (const Dims& shape :
       {Dims{}, Dims{0}, Dims{5}, Dims{3, 4}, Dims{2, 0, 3}, Dims{1, 2, 3, 4, 1, 1, 1, 1, 1, 1, 1, 2}}) {
    for (const DType dtype : kAllDTypes) {
      const Tensor tensor = empty(shape, dtype, Device::cpu());
      const auto size = static_cast<std::size_t>(tensor.numel() * itemsize_bytes(dtype));
      for (std::size_t i = 0; i < size; ++i)
        static_cast<unsigned char*>(tensor.data())[i] =
            static_cast<unsigned char>(dtype == DType::bool_ ? random() & 1 : random());
      const std::string path = directory_.file("b.npy");
      write_npy(path, tensor);
      EXPECT_EQ((std::filesystem::file_size(path) - size) % 64, 0U);
      const Tensor back = read_npy(path);
      EXPECT_EQ(back.dtype(), npy_storage_dtype(dtype));
      EXPECT_EQ(back.shape(), shape);
      if (size > 0) {
        EXPECT_EQ(std::memcmp(back.data(), tensor.data(), size), 0) << name(dtype);
      }
    }
  }
}

TEST_F(NpyTest, WritesTheHeaderThatNumPyWrites) {
  float value[6] = {};
  const std::string path = directory_.file("b.npy");
  write_npy(path, dense_view(value, DType::f32, Dims{6}));
  EXPECT_THAT(load(path).substr(10), testing::StartsWith("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } "));
  write_npy(path, dense_view(value, DType::f32, Dims{2, 3}));
  EXPECT_THAT(load(path).substr(10),
              testing::StartsWith("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } "));
  write_npy(path, dense_view(value, DType::bool_, Dims{}));
  EXPECT_THAT(load(path).substr(10), testing::StartsWith("{'descr': '|b1', 'fortran_order': False, 'shape': (), } "));
}

TEST_F(NpyTest, ReplacesAFileAsAWholeOrNotAtAll) {
  float value[2] = {1, 2};
  const TensorView view = dense_view(value, DType::f32, Dims{2});
  const std::string path = directory_.file("b.npy");
  std::ofstream(path) << "old";
  std::filesystem::create_symlink("b.npy", directory_.file("link.npy"));
  write_npy(directory_.file("link.npy"), view);
  EXPECT_TRUE(std::filesystem::is_symlink(directory_.file("link.npy")));
  EXPECT_EQ(read_npy(path).numel(), 2);

  EXPECT_THROW(write_npy(directory_.file("absent/b.npy"), view), SystemError);
  EXPECT_THROW(write_npy(directory_.path().string(), view), SystemError);
  // The kernel refuses the second half of the file: the old one stays, and no fragment beside it.
  const std::vector<float> large(1 << 16);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_npy(path, dense_view(const_cast<float*>(large.data()), DType::f32, Dims{1 << 16}));
    } catch (const SystemError&) {
      ::_exit(0);
    }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_npy(path).numel(), 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 2);
}

}  // namespace
}  // namespace kiln::cli
