#include <functional>
#include <vector>

#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

Attributes along(std::int64_t dim) {
  return {{"dim", dim}};
}

Dims shape_of(std::string_view op, const std::vector<TensorView>& inputs, std::int64_t dim) {
  return infer(op, inputs, along(dim)).at(0).shape;
}

TEST(IndexSelect, Shapes) {
  const TensorView x = shaped(DType::f32, {4, 5, 6});
  EXPECT_EQ(shape_of("index_select", {x, shaped(DType::i64, {7})}, 1), (Dims{4, 7, 6}));
  EXPECT_EQ(shape_of("index_select", {x, shaped(DType::i32, {0})}, -1), (Dims{4, 5, 0}));
  EXPECT_EQ(shape_of("index_select", {x, shaped(DType::i32, {})}, 0), (Dims{1, 5, 6}));
  EXPECT_EQ(shape_of("index_select", {shaped(DType::f32, {}), shaped(DType::i64, {1})}, -1), Dims{});
  EXPECT_EQ(infer("index_select", {shaped(DType::bool_, {4}), shaped(DType::i64, {2})}, along(0))[0].dtype,
            DType::bool_);
}

TEST(IndexSelect, Errors) {
  const TensorView x = shaped(DType::f32, {4, 5});
  EXPECT_THAT(type_refusal("index_select", {x, shaped(DType::f32, {3})}, along(0)),
              Says("'index'", "f32 (3)", "i64 or i32"));
  EXPECT_THAT(value_refusal("index_select", {x, shaped(DType::i64, {3, 1})}, along(0)),
              Says("(3, 1)", "one dimension"));
  EXPECT_THAT(value_refusal("index_select", {x, shaped(DType::i64, {3})}, along(2)), Says("'dim' is 2", "-2 to 1"));
  EXPECT_THAT(value_refusal("index_select", {shaped(DType::f32, {}), shaped(DType::i64, {2})}, along(0)),
              HasSubstr("one element"));
}

TEST(IndexSelect, ReferencePutsZerosForIndicesOutside) {
  HostTensor x(DType::f32, {3, 2}, std::vector<double>{1, 2, 3, 4, 5, 6});
  HostTensor index(DType::i32, {5}, std::vector<std::int64_t>{2, 0, -1, 3, 2});
  EXPECT_THAT(run_reference("index_select", {x.view(), index.view()}, along(0)).values<double>(),
              ElementsAre(5, 6, 1, 2, 0, 0, 0, 0, 5, 6));
  HostTensor columns(DType::i64, {3}, std::vector<std::int64_t>{1, 1, 7});
  EXPECT_THAT(run_reference("index_select", {x.view(), columns.view()}, along(-1)).values<double>(),
              ElementsAre(2, 2, 0, 4, 4, 0, 6, 6, 0));
}

TEST(Gather, Shapes) {
  const TensorView x = shaped(DType::f16, {4, 5, 6});
  EXPECT_EQ(shape_of("gather", {x, shaped(DType::i64, {4, 50, 3})}, 1), (Dims{4, 50, 3}));
  EXPECT_EQ(shape_of("gather", {x, shaped(DType::i64, {9, 0, 6})}, 0), (Dims{9, 0, 6}));
  EXPECT_EQ(shape_of("gather", {shaped(DType::f16, {}), shaped(DType::i64, {})}, 0), Dims{});
  EXPECT_EQ(shape_of("gather", {shaped(DType::f16, {7}), shaped(DType::i64, {})}, 0), Dims{});
}

TEST(Gather, Errors) {
  const TensorView x = shaped(DType::f32, {4, 5});
  EXPECT_THAT(type_refusal("gather", {x, shaped(DType::u8, {4, 5})}, along(0)), HasSubstr("i64 or i32"));
  EXPECT_THAT(value_refusal("gather", {x, shaped(DType::i64, {4})}, along(0)),
              Says("(4)", "(4, 5)", "as many dimensions"));
  EXPECT_THAT(value_refusal("gather", {x, shaped(DType::i64, {9, 6})}, along(0)),
              Says("(9, 6)", "dimension 1", "the 5 of input 'x'"));
  EXPECT_THAT(value_refusal("gather", {x, shaped(DType::i64, {4, 5})}, along(-3)), HasSubstr("'dim' is -3"));
}

TEST(Gather, ReferenceFollowsTorch) {
  // torch.gather(tensor([[1, 2], [3, 4]]), 1, tensor([[0, 0], [1, 0]])), from torch's documentation.
  HostTensor x(DType::f32, {2, 2}, std::vector<double>{1, 2, 3, 4});
  HostTensor index(DType::i64, {2, 2}, std::vector<std::int64_t>{0, 0, 1, 0});
  EXPECT_THAT(run_reference("gather", {x.view(), index.view()}, along(1)).values<double>(), ElementsAre(1, 1, 4, 3));
  HostTensor outside(DType::i64, {1, 2}, std::vector<std::int64_t>{-1, 2});
  EXPECT_THAT(run_reference("gather", {x.view(), outside.view()}, along(0)).values<double>(), ElementsAre(0, 0));
}

TEST(ScatterAdd, Errors) {
  const TensorView x = shaped(DType::f32, {4, 5}), index = shaped(DType::i64, {4, 5});
  EXPECT_THAT(type_refusal("scatter_add", {x, index, shaped(DType::f64, {4, 5})}, along(0)),
              Says("'src'", "f64", "f32"));
  EXPECT_THAT(value_refusal("scatter_add", {x, index, shaped(DType::f32, {4, 4})}, along(0)),
              Says("dimension 1", "the 4 of input 'src'"));
  EXPECT_THAT(value_refusal("scatter_add", {x, shaped(DType::i64, {4, 6}), shaped(DType::f32, {4, 6})}, along(0)),
              Says("dimension 1", "the 5 of input 'x'"));
  EXPECT_THAT(value_refusal("scatter_add", {x, index, shaped(DType::f32, {4, 5, 1})}, along(0)),
              Says("'src'", "as many dimensions"));
  EXPECT_THAT(type_refusal("scatter_add", {x, shaped(DType::i8, {4, 5}), x}, along(0)), HasSubstr("i64 or i32"));
}

TEST(ScatterAdd, ReferenceFollowsTorch) {
  // zeros(3, 5).scatter_add(0, [[0, 1, 2, 0, 0], [0, 1, 2, 2, 2]], ones(2, 5)), from torch's documentation.
  HostTensor x(DType::f32, {3, 5}, std::vector<double>(15, 0));
  HostTensor index(DType::i64, {2, 5}, std::vector<std::int64_t>{0, 1, 2, 0, 0, 0, 1, 2, 2, 2});
  HostTensor src(DType::f32, {2, 5}, std::vector<double>(10, 1));
  EXPECT_THAT(run_reference("scatter_add", {x.view(), index.view(), src.view()}, along(0)).values<double>(),
              ElementsAre(2, 0, 0, 1, 1, 0, 2, 0, 0, 0, 0, 0, 2, 1, 1));
}

TEST(ScatterAdd, ReferenceDropsIndicesOutsideAndWrapsIntegers) {
  HostTensor x(DType::i8, {2}, std::vector<std::int64_t>{100, 5});
  HostTensor index(DType::i32, {4}, std::vector<std::int64_t>{0, 2, -1, 0});
  HostTensor src(DType::i8, {5}, std::vector<std::int64_t>{100, 1, 1, 2, 9});
  EXPECT_THAT(run_reference("scatter_add", {x.view(), index.view(), src.view()}, along(0)).values<std::int64_t>(),
              ElementsAre(-54, 5));
}

}  // namespace
}  // namespace kiln::test
