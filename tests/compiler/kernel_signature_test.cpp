#include "compiler/kernel_signature.hpp"

#include "core/errors.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

KernelSource file(const std::string& text) {
  return {"mine.hpp", text, {}};
}

std::string refusal(const std::string& text, std::string_view kernel = {}) {
  return value_error([&] { kernel_signature(file(text), kernel); });
}

TEST(KernelSignature, ReadsTemplateAndFunctionParameters) {
  const KernelSignature signature = kernel_signature(file(R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;

template <typename T, int BLOCK_SIZE = 128, bool EXACT = false>
KILN_KERNEL void scale(const T* x, T* __restrict__ out, tl::int64_t n, const float alpha = 1.0f) {
  tl::store(out + tl::arange<BLOCK_SIZE>(), tl::load(x + tl::arange<BLOCK_SIZE>()) * alpha);
}
)"));
  EXPECT_EQ(signature.kernel, "scale");
  EXPECT_EQ(signature.line, 5);
  ASSERT_EQ(signature.template_parameters.size(), 3u);
  EXPECT_EQ(signature.template_parameters[0].kind, TemplateParameter::Kind::type);
  EXPECT_EQ(signature.template_parameters[0].name, "T");
  EXPECT_EQ(signature.template_parameters[0].fallback, "");
  EXPECT_EQ(signature.template_parameters[1].kind, TemplateParameter::Kind::integer);
  EXPECT_EQ(signature.template_parameters[1].name, "BLOCK_SIZE");
  EXPECT_EQ(signature.template_parameters[1].fallback, "128");
  EXPECT_EQ(signature.template_parameters[2].kind, TemplateParameter::Kind::boolean);
  EXPECT_EQ(signature.template_parameters[2].fallback, "false");
  ASSERT_EQ(signature.parameters.size(), 4u);
  const auto& [x, out, n, alpha] =
      std::tie(signature.parameters[0], signature.parameters[1], signature.parameters[2], signature.parameters[3]);
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.type, "const T*");
  EXPECT_EQ(x.value_type, "T");
  EXPECT_TRUE(x.is_pointer && x.is_const);
  EXPECT_EQ(out.name, "out");
  EXPECT_EQ(out.type, "T*");
  EXPECT_TRUE(out.is_pointer && !out.is_const);
  EXPECT_EQ(n.name, "n");
  EXPECT_EQ(n.type, "tl::int64_t");
  EXPECT_FALSE(n.is_pointer);
  EXPECT_EQ(alpha.name, "alpha");
  EXPECT_EQ(alpha.type, "float");
  EXPECT_EQ(alpha.fallback, "1.0f");
}

TEST(KernelSignature, ReadsThroughCommentsLineBreaksAndPunctuation) {
  const KernelSignature signature = kernel_signature(file(R"(
#define KERNEL_OF(x) template <int N> KILN_KERNEL void macro_##x( \
    int y)
// template <typename A> KILN_KERNEL void commented(const A* x);
/* template <typename A> KILN_KERNEL void commented_too(const A* x); */
constexpr const char* kText = "template <typename A> KILN_KERNEL void quoted(const A* x);";
constexpr const char* kRaw = R"x(template <typename A> KILN_KERNEL void raw(const A* x);)x";
constexpr int kMillion = 1'000'000;
template <typename A, typename B>
struct Pair { A a; B b; void member(); };
template <
    typename T,  // the elements' type, of two < three > kinds
    int ROWS = (4 > 2) ? 4 : 2,
    class F = Pair<int, Pair<float, float>>
>
[[nodiscard]] KILN_KERNEL_OF(ROWS < 4 ? 2 : 1)
void
    __launch_bounds__(128)
    tricky(T const * const x /* read, not written */, float *out,
           unsigned long long, unsigned, const int, tl::float16*, [[maybe_unused]] Pair<int, float> pair)
{
  struct Local { int a; };
}
)"));
  EXPECT_EQ(signature.kernel, "tricky");
  ASSERT_EQ(signature.template_parameters.size(), 3u);
  EXPECT_EQ(signature.template_parameters[1].name, "ROWS");
  EXPECT_EQ(signature.template_parameters[1].fallback, "(4>2)?4:2");
  EXPECT_EQ(signature.template_parameters[2].name, "F");
  EXPECT_EQ(signature.template_parameters[2].fallback, "Pair<int,Pair<float,float>>");
  ASSERT_EQ(signature.parameters.size(), 7u);
  EXPECT_EQ(signature.parameters[0].value_type, "T");
  EXPECT_TRUE(signature.parameters[0].is_pointer && signature.parameters[0].is_const);
  EXPECT_EQ(signature.parameters[0].name, "x");
  EXPECT_TRUE(signature.parameters[1].is_pointer && !signature.parameters[1].is_const);
  EXPECT_EQ(signature.parameters[2].type, "unsigned long long");
  EXPECT_EQ(signature.parameters[2].name, "arg2");
  EXPECT_EQ(signature.parameters[3].type, "unsigned");
  EXPECT_EQ(signature.parameters[4].type, "int");
  EXPECT_EQ(signature.parameters[4].name, "arg4");
  EXPECT_EQ(signature.parameters[5].type, "tl::float16*");
  EXPECT_EQ(signature.parameters[5].name, "arg5");
  EXPECT_EQ(signature.parameters[6].type, "Pair<int,float>");
  EXPECT_EQ(signature.parameters[6].name, "pair");
}

constexpr const char* kNamespaces = R"(
namespace a::b { template <int N> KILN_KERNEL void twice(float* out); }
namespace { template <int N> KILN_KERNEL void hidden(float* out) {} }
namespace c {
namespace short_name = a::b;
extern "C" { struct S {}; }
inline namespace v1 {
void ordinary() { if (true) { return; } }
template <int N> KILN_KERNEL void twice(float* out, int n) {}
}
template <typename T> KILN_KERNEL void only(T* out) {}
}
template <typename T> KILN_KERNEL void only_declared(T* out);
template <typename T> KILN_KERNEL void only_declared(T* out) {}
)";

TEST(KernelSignature, FindsKernelsInNamespaces) {
  EXPECT_EQ(kernel_signature(file(kNamespaces), "c::v1::twice").parameters.size(), 2u);
  EXPECT_EQ(kernel_signature(file(kNamespaces), "b::twice").kernel, "a::b::twice");
  EXPECT_EQ(kernel_signature(file(kNamespaces), "only").kernel, "c::only");
  EXPECT_EQ(kernel_signature(file(kNamespaces), "hidden").kernel, "hidden");
  EXPECT_EQ(kernel_signature(file(kNamespaces), "only_declared").parameters.size(), 1u);
}

TEST(KernelSignature, ListsTheKernelsThereAre) {
  EXPECT_THAT(refusal(kNamespaces, "onyl"), Says("'onyl'", "did you mean 'only'", "a::b::twice, hidden, c::v1::twice"));
  EXPECT_THAT(refusal(kNamespaces, "twice"), Says("a::b::twice", "c::v1::twice"));
  EXPECT_THAT(refusal(kNamespaces), Says("5 kernels", "must be named"));
  EXPECT_THAT(refusal("int x;", "k"), Says("mine.hpp", "it has none"));
  EXPECT_THAT(refusal(""), HasSubstr("0 kernels"));
  EXPECT_THAT(refusal("KILN_KERNEL void plain(float* x) {}"), Says("'plain'", "no template"));
  EXPECT_THAT(
      refusal("template <int N> KILN_KERNEL void k(float* x) {}\ntemplate <int N> KILN_KERNEL void k(int* x) {}"),
      Says("two ways", "lines 1 and 2"));
}

TEST(KernelSignature, SurvivesTextThatIsNoKernel) {
  for (const char* text : {"template",
                           "template <",
                           "template <typename T",
                           "template <typename T>",
                           "template <typename T> KILN_KERNEL",
                           "template <typename T> KILN_KERNEL void",
                           "template <typename T> KILN_KERNEL void k",
                           "template <typename T> KILN_KERNEL void k(",
                           "template <typename T> KILN_KERNEL void k(T* x",
                           "template <typename T> KILN_KERNEL void k(T* x, , int n) {}",
                           "template <typename T> KILN_KERNEL int k(T* x) {}",
                           "KILN_KERNEL void",
                           "namespace",
                           "namespace a {",
                           "}}}}",
                           "\"",
                           "'",
                           "R\"",
                           "R\"(",
                           "/*",
                           "//",
                           "#",
                           "#\\\n",
                           "{",
                           "extern \"C\" {",
                           "template <> KILN_KERNEL"})
    EXPECT_THROW(kernel_signature(file(text), "k"), UsageError) << text;
}

TEST(KernelSignature, KnowsWhatItCannotGive) {
  const KernelSignature signature =
      kernel_signature(file("template <typename... Ts, template <typename> class C, Enum E, auto V, unsigned long N>\n"
                            "KILN_KERNEL void k(float** x, const T& y, float z[], void) {}"));
  using Kind = TemplateParameter::Kind;
  std::vector<Kind> kinds;
  for (const TemplateParameter& parameter : signature.template_parameters) kinds.push_back(parameter.kind);
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::other, Kind::other, Kind::other, Kind::integer, Kind::integer}));
  EXPECT_EQ(signature.parameters[0].value_type, "float*");
  EXPECT_FALSE(signature.parameters[1].is_pointer);
  EXPECT_FALSE(signature.parameters[2].is_pointer);
  EXPECT_TRUE(kernel_signature(file("template <int N> KILN_KERNEL void k(void) {}")).parameters.empty());
  EXPECT_TRUE(kernel_signature(file("template <int N> KILN_KERNEL void k() {}")).parameters.empty());
}

TEST(KernelSignature, KnowsTheSpellingsOfDtypes) {
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(spelled_dtype(info(dtype).tl_name), dtype) << name(dtype);
    EXPECT_EQ(full_spelling(info(dtype).tl_name), info(dtype).tl_name);
  }
  EXPECT_EQ(spelled_dtype("tl::int64_t"), DType::i64);
  EXPECT_EQ(full_spelling("tl::int64_t"), "kiln::tl::int64_t");
  EXPECT_EQ(spelled_dtype("int64_t"), DType::i64);
  EXPECT_EQ(full_spelling("bfloat16"), "kiln::tl::bfloat16");
  EXPECT_EQ(spelled_dtype("unsigned"), DType::u32);
  EXPECT_EQ(spelled_dtype("long"), DType::i64);
  EXPECT_EQ(full_spelling("long"), "long") << "not the same type as long long, though of its size";
  for (const char* other : {"T", "index_t", "void", "", "std::size_t", "float*", "kiln::tl::"})
    EXPECT_EQ(spelled_dtype(other), std::nullopt) << other;
}

}  // namespace
}  // namespace kiln::test
