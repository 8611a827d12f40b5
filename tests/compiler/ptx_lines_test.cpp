#include "compiler/ptx_lines.hpp"

#include <gtest/gtest.h>

#include <string>

namespace kiln::test {
namespace {

/// As NVRTC writes it: a location in inlined code names its caller's, which a directive before has named.
const std::string kPtx = R"(
.version 9.0
.visible .entry k(
	.param .u64 k_param_0
)
{
	.reg .b32 	%r<9>;
	.loc	1 4 3
	mov.u32 	%r2, %tid.x;
	.loc	2 30 5, function_name $L__info_string0, inlined_at 1 5 3
	.loc	2 70 5, function_name $L__info_string1, inlined_at 2 30 5
	st.shared.v4.f32 	[%r5], {%f1, %f2, %f3, %f4};
	bar.sync 	0;
	@%p1 ld.shared.f32 	%f2, [%r5];
	.loc	3 9 1, function_name $L__info_string2, inlined_at 2 30 5
	shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;
$L__BB0_1:
	.loc	1 6 3
	// begin inline asm
	{ .reg .pred p; setp.ne.b32 p, %r1, 0; @p cp.async.cg.shared.global [%r5], [%rd1], 16; }
	// end inline asm
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p, 1, 1;
	.loc	2 0 0
	st.global.v4.u32 	[%rd4], {%r1, %r2, %r3, %r4};
	st.local.u32 	[%rd4], %r1;
	ret;
}
	.file	1 "/home/me/k.hpp"
	.file	2 "/tree/compiler/tl/memory.hpp"
	.file	3 "/home/me/helper.hpp"
)";

TEST(PtxLines, InlinedCodeCountsWhereItLeavesTheTileLanguage) {
  const std::vector<LineInstructions> lines = instructions_by_line(kPtx);
  const std::vector<LineInstructions> wanted{
      {.file = {}, .all = 3, .global_stores = 1, .local_accesses = 1},
      {.file = "/home/me/k.hpp", .line = 4, .all = 1},
      {.file = "/home/me/k.hpp", .line = 5, .all = 3, .shared_loads = 1, .shared_stores = 1, .barriers = 1},
      {.file = "/home/me/k.hpp", .line = 6, .all = 3, .copies = 1, .products = 1},
      {.file = "/home/me/helper.hpp", .line = 9, .all = 1, .shuffles = 1}};
  EXPECT_EQ(lines, wanted);
}

TEST(PtxLines, TextWithoutLinesIsOfNoLine) {
  const std::vector<LineInstructions> lines = instructions_by_line(".entry k()\n{\n\tmov.u32 %r1, %r2;\n\tret;\n}\n");
  EXPECT_EQ(lines, (std::vector<LineInstructions>{{.file = {}, .all = 2}}));
  EXPECT_TRUE(instructions_by_line("").empty());
}

}  // namespace
}  // namespace kiln::test
