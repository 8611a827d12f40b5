#include "compiler/stub.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/errors.hpp"

namespace kiln::test {
namespace {

CompileRequest request() {
  CompileRequest request;
  request.op = "add";
  request.configuration = "BLOCK_SIZE=256";
  request.source = {"ops/add.hpp", "#include \"shared.hpp\"\n", {{"shared.hpp", "int shared;\n", {}}}};
  request.kernel = "kiln::ops::add_kernel";
  request.template_arguments = {DType::bf16, std::int64_t{256}, true, TypeName{"kiln::ops::Add"}};
  request.target = {DeviceType::cpu, "znver5", "+avx2"};
  return request;
}

TEST(Stub, SpellsTypedArguments) {
  EXPECT_EQ(spell(DType::f32), "float");
  EXPECT_EQ(spell(DType::bf16), "kiln::tl::bfloat16");
  EXPECT_EQ(spell(std::int64_t{-7}), "-7");
  EXPECT_EQ(spell(std::numeric_limits<std::int64_t>::max()), "9223372036854775807");
  EXPECT_EQ(spell(std::numeric_limits<std::int64_t>::min()), "(-9223372036854775807 - 1)");
  EXPECT_EQ(spell(true), "true");
  EXPECT_EQ(spell(false), "false");
  EXPECT_EQ(spell(TypeName{"a::B<int, 3>"}), "a::B<int, 3>");
}

StructValue tiling(std::int64_t rows, bool split) {
  return {"kiln::ops::Tiling", {{"rows", rows}, {"split", split}}};
}

TEST(Stub, SpellsStructsWithTheNamesOfTheirFields) {
  EXPECT_EQ(spell(tiling(64, false)), "kiln::ops::Tiling{.rows = 64, .split = false}");
  EXPECT_EQ(spell(StructValue{"T", {{"x_1", std::numeric_limits<std::int64_t>::min()}}}),
            "T{.x_1 = (-9223372036854775807 - 1)}");
}

TEST(Stub, RefusesStructsThatCouldOpenAStatement) {
  for (const char* name : {"", "a;b", "f()", "a{", "a b", "a,b", "a::b", "a<b>", "a=1"})
    EXPECT_THROW(spell(StructValue{"T", {{name, true}}}), InternalError) << name;
  for (const char* name : {"", "a;b", "f()", "a{"})
    EXPECT_THROW(spell(StructValue{name, {{"rows", true}}}), InternalError) << name;
  EXPECT_THROW(spell(StructValue{"T", {}}), InternalError) << "no field is named, so none could be missing";
}

TEST(Stub, RefusesNamesThatCouldOpenAStatement) {
  for (const char* name : {"", "a;b", "f()", "a{", "\"x\"", "a\nb", "a/*", "#x"})
    EXPECT_THROW(spell(TypeName{name}), InternalError) << name;
  CompileRequest bad = request();
  bad.kernel = "k>(); //";
  EXPECT_THROW(instance_name(bad), InternalError);
}

TEST(Stub, NamesTheInstance) {
  EXPECT_EQ(instance_name(request()), "kiln::ops::add_kernel<kiln::tl::bfloat16, 256, true, kiln::ops::Add>");
  CompileRequest no_arguments = request();
  no_arguments.template_arguments.clear();
  EXPECT_EQ(instance_name(no_arguments), "kiln::ops::add_kernel<>");
  EXPECT_EQ(entry_name(no_arguments), "kiln::ops::add_kernel<>");
  no_arguments.copy_warps = 4;
  EXPECT_EQ(entry_name(no_arguments), "kiln::tl::entry_with_copy_warps<&kiln::ops::add_kernel<>>");
}

TEST(Stub, CpuDefinesTheEntryAndCudaOnlyIncludes) {
  const std::string cpu = stub(request());
  EXPECT_TRUE(cpu.starts_with("#include \"ops/add.hpp\"\n"));
  EXPECT_NE(cpu.find("void kiln_entry("), std::string::npos);
  EXPECT_NE(cpu.find("run_programs<&kiln::ops::add_kernel<kiln::tl::bfloat16, 256, true, kiln::ops::Add>>"),
            std::string::npos);
  CompileRequest cuda = request();
  cuda.target = {DeviceType::cuda, "sm_90a", ""};
  EXPECT_EQ(stub(cuda), "#include \"ops/add.hpp\"\n");
}

TEST(Stub, ChecksTheNumberOfParametersWhereItIsKnown) {
  for (const DeviceType type : {DeviceType::cpu, DeviceType::cuda}) {
    CompileRequest counted = request();
    counted.target.type = type;
    const std::string unchecked = stub(counted);
    EXPECT_EQ(unchecked.find("static_assert"), std::string::npos);
    const ContentHash unchecked_key = content_key(counted, "compiler");
    counted.num_parameters = 3;
    EXPECT_NE(stub(counted).find("sizeof...(Declared) == 3"), std::string::npos);
    EXPECT_NE(content_key(counted, "compiler"), unchecked_key);
  }
}

TEST(Stub, ChecksTheTypesOfParametersWhereTheyAreKnown) {
  for (const DeviceType type : {DeviceType::cpu, DeviceType::cuda}) {
    CompileRequest typed = request();
    typed.target.type = type;
    typed.num_parameters = 2;
    const std::string untyped = stub(typed);
    EXPECT_EQ(untyped.find("is passed as"), std::string::npos);
    const ContentHash untyped_key = content_key(typed, "compiler");
    typed.parameter_types = {"const float*", "kiln::tl::int64_t"};
    EXPECT_NE(stub(typed).find("parameter 2 of the kernel is passed as kiln::tl::int64_t"), std::string::npos);
    EXPECT_NE(content_key(typed, "compiler"), untyped_key);
  }
}

TEST(Stub, RefusesPathsThatCannotBeIncluded) {
  for (const char* path : {"", "a\"b", "a\nb", "a\\b"}) {
    CompileRequest bad = request();
    bad.source.path = path;
    EXPECT_THROW(stub(bad), UsageError) << path;
  }
}

TEST(Stub, VectorWidthDefaultsToSixteenBytesOfTheWidestDtype) {
  CompileRequest asked = request();
  EXPECT_EQ(resolved_vector_width(asked), 8);
  asked.template_arguments = {DType::i8, DType::f64};
  EXPECT_EQ(resolved_vector_width(asked), 2);
  asked.template_arguments = {std::int64_t{3}};
  EXPECT_EQ(resolved_vector_width(asked), 4);
  asked.vector_width = 1;
  EXPECT_EQ(resolved_vector_width(asked), 1);
}

TEST(ContentKey, CoversWhatChangesTheBytes) {
  const ContentHash base = content_key(request(), "clang 19");
  EXPECT_EQ(content_key(request(), "clang 19"), base);
  EXPECT_NE(content_key(request(), "clang 20"), base);
  const auto differs = [&](auto change) {
    CompileRequest changed = request();
    change(changed);
    return content_key(changed, "clang 19") != base;
  };
  EXPECT_TRUE(differs([](CompileRequest& r) { r.source.text += " "; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.source.headers[0].text += " "; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.source.path = "ops/other.hpp"; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.template_arguments[1] = std::int64_t{128}; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.template_arguments[2] = false; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.kernel = "kiln::ops::sub_kernel"; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.target.features += ",+fma"; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.target.arch = "znver4"; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.target.type = DeviceType::cuda; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.line_info = true; }));
}

TEST(ContentKey, CoversEachFieldOfAStruct) {
  const auto key = [](const StructValue& value) {
    CompileRequest asked = request();
    asked.template_arguments.emplace_back(value);
    return content_key(asked, "clang 19");
  };
  const ContentHash base = key(tiling(64, false));
  EXPECT_EQ(key(tiling(64, false)), base);
  EXPECT_NE(key(tiling(65, false)), base);
  EXPECT_NE(key(tiling(64, true)), base);
  StructValue renamed = tiling(64, false), retyped = tiling(64, false), longer = tiling(64, false);
  renamed.fields[1].name = "whole";
  retyped.type = "kiln::ops::Layout";
  longer.fields.push_back({"columns", std::int64_t{0}});
  EXPECT_NE(key(renamed), base);
  EXPECT_NE(key(retyped), base);
  EXPECT_NE(key(longer), base);
}

TEST(ContentKey, LeavesOutWhatDoesNot) {
  const ContentHash base = content_key(request(), "clang 19");
  CompileRequest changed = request();
  changed.op = "other";
  changed.configuration = "other";
  changed.num_warps = 8;
  changed.vector_width = 2;
  changed.source.headers.push_back({"unused.hpp", "int unused;", {}});
  EXPECT_EQ(content_key(changed, "clang 19"), base) << "num_warps and vector_width mean nothing on the CPU";

  CompileRequest here = request(), there = request();
  here.source.path = "/home/a/kernel.hpp";
  there.source.path = "/srv/b/kernel.hpp";
  EXPECT_EQ(content_key(here, "clang 19"), content_key(there, "clang 19"));
}

TEST(ContentKey, CoversGeometryOnTheGpu) {
  CompileRequest cuda = request();
  cuda.target = {DeviceType::cuda, "sm_90a", ""};
  const ContentHash base = content_key(cuda, "nvrtc 13.0");
  CompileRequest warps = cuda, copying = cuda, width = cuda, same_width = cuda;
  warps.num_warps = 8;
  copying.copy_warps = 4;
  width.vector_width = 2;
  same_width.vector_width = 8;
  EXPECT_NE(content_key(warps, "nvrtc 13.0"), base);
  EXPECT_NE(content_key(copying, "nvrtc 13.0"), base);
  EXPECT_NE(content_key(width, "nvrtc 13.0"), base);
  EXPECT_EQ(content_key(same_width, "nvrtc 13.0"), base) << "8 is what 0 resolves to";
}

}  // namespace
}  // namespace kiln::test
