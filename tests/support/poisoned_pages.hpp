#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ops/common/element.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/op_case.hpp"

/// Calls of attention_paged that show whoever looks behind a length.
namespace kiln::test {

using Lengths = std::vector<std::int64_t>;

/// Shapes of a call.
struct Paged {
  DType dtype = DType::bf16;
  std::int64_t queries = 1, key_heads = 2, group = 1, dim = 64, value_dim = 64, page = 16, max_pages = 8;
  bool heads_first = false;
};

/// A call of these lengths, whose requests' pages are shuffled. Entries that no length uses are garbage, and places of
/// the caches that no length uses are NaN.
class PoisonedCall {
 public:
  PoisonedCall(const Paged& shapes, const Lengths& lengths, Attributes attributes, std::uint64_t seed)
      : PoisonedCall(shapes, lengths, {example_of(shapes, lengths, attributes), seed}) {}

  const DrawnCall& drawn() const { return drawn_; }

 private:
  struct Drawing {
    Example example;
    std::uint64_t seed;
  };

  PoisonedCall(const Paged& shapes, const Lengths& lengths, const Drawing& drawing)
      : drawn_(Registry::process().get("attention_paged"), drawing.example, drawing.seed) {
    std::mt19937_64 random(drawing.seed);
    std::vector<std::int64_t> blocks(static_cast<std::size_t>(drawn_.tensors[1].shape()[0]));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::ranges::shuffle(blocks, random);
    const auto put = [](const Tensor& tensor, std::int64_t at, std::int64_t value) {
      common::store_at<std::int64_t>(tensor, at, value);
    };
    std::vector<bool> used(blocks.size() * static_cast<std::size_t>(shapes.page));
    std::size_t next = 0;
    for (std::size_t request = 0; request < lengths.size(); ++request) {
      const auto row = static_cast<std::int64_t>(request);
      put(drawn_.tensors[4], row, lengths[request]);
      for (std::int64_t entry = 0; entry < shapes.max_pages; ++entry) {
        const std::int64_t left = lengths[request] - entry * shapes.page;
        const std::int64_t garbage = random() % 2 == 0 ? -5 : std::numeric_limits<std::int32_t>::max();
        put(drawn_.tensors[3], row * shapes.max_pages + entry, left > 0 ? blocks[next] : garbage);
        if (left <= 0) continue;
        for (std::int64_t place = 0; place < std::min(left, shapes.page); ++place)
          used[static_cast<std::size_t>(blocks[next] * shapes.page + place)] = true;
        ++next;
      }
    }
    for (const std::size_t cache : {std::size_t{1}, std::size_t{2}}) {
      const Tensor& tensor = drawn_.tensors[cache];
      for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        const Dims& shape = tensor.shape();
        const std::int64_t block = i / (shape[1] * shape[2] * shape[3]),
                           place = shapes.heads_first ? i / shape[3] % shape[2] : i / (shape[2] * shape[3]) % shape[1];
        if (!used[static_cast<std::size_t>(block * shapes.page + place)])
          common::store_at<double>(tensor, i, std::numeric_limits<double>::quiet_NaN());
      }
    }
  }

  static Example example_of(const Paged& shapes, const Lengths& lengths, Attributes attributes) {
    const auto batch = static_cast<std::int64_t>(lengths.size()), blocks = batch * shapes.max_pages + 3;
    const auto cache = [&](std::int64_t width) -> TensorMeta {
      if (shapes.heads_first) return {shapes.dtype, {blocks, shapes.key_heads, shapes.page, width}};
      return {shapes.dtype, {blocks, shapes.page, shapes.key_heads, width}};
    };
    attributes.set("layout", std::string(shapes.heads_first ? "HND" : "NHD"));
    attributes.set("return_lse", true);
    return {{{shapes.dtype, {batch, shapes.queries, shapes.key_heads * shapes.group, shapes.dim}},
             cache(shapes.dim),
             cache(shapes.value_dim),
             {DType::i32, {batch, shapes.max_pages}},
             {DType::i32, {batch}}},
            attributes};
  }

  DrawnCall drawn_;
};

}  // namespace kiln::test
