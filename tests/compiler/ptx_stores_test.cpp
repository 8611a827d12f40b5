#include "compiler/ptx_stores.hpp"

#include <gtest/gtest.h>

#include <string>

namespace kiln::test {
namespace {

/// Of the lines "// here", in order: 1 for each that follows a store.
std::string answers(const std::string& body) {
  std::vector<std::size_t> places;
  for (std::size_t at = body.find("// here"); at != std::string::npos; at = body.find("// here", at + 1))
    places.push_back(at);
  std::string text;
  for (const bool answer : follow_stores(body, places)) text += answer ? '1' : '0';
  return text;
}

TEST(PtxStores, AreFollowedAlongEveryPath) {
  const struct {
    const char* body;
    const char* expected;
  } cases[] = {
      {"\t// here\n\tst.global.b32 \t[%rd1], %r1;\n\t// here\n", "01"},
      {"\tst.shared.v4.b32 \t[%r1], {};\n\tst.local.b32 [%r1], 0;\n\tst.param.b64 [param0], %rd1;\n\t// here\n", "0"},
      {"\tld.global.b32 \t%r1, [%rd1];\n\tsetp.ne.s32 %p1, %r1, 0;\n\t// here\n", "0"},
      {"\tst.b32 \t[%rd1], %r1;\n\t// here\n", "1"},
      {"\t@%p1 st.global.b32 \t[%rd1], %r1;\n\t// here\n", "1"},
      {"\tred.global.add.f32 \t[%rd1], %f1;\n\t// here\n", "1"},
      {"\tatom.shared.cas.b32 \t%r1, [%r2], 0, 1;\n\t// here\n\tatom.cas.b32 \t%r1, [%rd2], 0, 1;\n\t// here\n", "01"},
      {"\tcall.uni (retval0), vprintf, (param0);\n\t// here\n", "1"},
      {"\t{.reg .u64 a; cvta.to.global.u64 a, %rd1; @p st.global.b16 [a], %rs1;}\n\t// here\n", "1"},
      {"\t{.reg .u64 a; cvta.to.global.u64 a, %rd1; atom.cas.b32 %r1, [a], %r2, %r3;}\n\t// here\n", "1"},
      // Behind a jump that is always taken nothing is reached but by labels.
      {"\tst.global.b32 [%rd1], 0;\n\tbra.uni \t$L1;\n$L2:\n\t// here\n\tret;\n$L1:\n\t// here\n", "01"},
      {"\t@%p1 bra \t$L2;\n\tst.global.b32 [%rd1], 0;\n\tret;\n$L2:\n\t// here\n", "0"},
      // A loop's end comes before its begin.
      {"$L1:\n\t// here\n\tst.global.b32 [%rd1], 0;\n\t@%p1 bra \t$L1;\n\tret;\n", "1"},
      {"$L1:\n\t// here\n\t@%p2 bra $L3;\n\tret;\n$L3:\n\tst.global.b32 [%rd1], 0;\n\t@%p1 bra \t$L1;\n", "1"},
      {"\tbrx.idx \t%r1, table;\n\t// here\n", "0"},
      {"\t// here\n\tst.global.b32 [%rd1], 0;\n\tbrx.idx \t%r1, table;\n", "1"},
  };
  for (const auto& [body, expected] : cases) EXPECT_EQ(answers(body), expected) << body;
}

}  // namespace
}  // namespace kiln::test
