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

/// Calls of ops over pages that show whoever looks behind a length.
namespace kiln::test {

using Lengths = std::vector<std::int64_t>;

/// Shapes of a call of attention_paged.
struct Paged {
  DType dtype = DType::bf16;
  std::int64_t queries = 1, key_heads = 2, group = 1, dim = 64, value_dim = 64, page = 16, max_pages = 8;
  bool heads_first = false;
};

/// Shapes of a call of mla_decode.
struct PagedLatents {
  DType dtype = DType::bf16;
  std::int64_t queries = 1, heads = 16, latent = 512, rotary = 64, page = 64, max_pages = 3;
  bool has_head = false;  ///< the cache is [blocks, page, 1, ...]
};

/// A call of these lengths, whose requests' pages are shuffled. Entries that no length uses are garbage, and places of
/// the caches that no length uses are NaN.
class PoisonedCall {
 public:
  PoisonedCall(const Paged& shapes, const Lengths& lengths, Attributes attributes, std::uint64_t seed)
      : PoisonedCall({.op = "attention_paged",
                      .example = example_of(shapes, lengths, attributes),
                      .caches = {1, 2},
                      .page = shapes.page,
                      .max_pages = shapes.max_pages,
                      .heads_first = shapes.heads_first},
                     lengths, seed) {}
  PoisonedCall(const PagedLatents& shapes, const Lengths& lengths, Attributes attributes, std::uint64_t seed)
      : PoisonedCall({.op = "mla_decode",
                      .example = example_of(shapes, lengths, attributes),
                      .caches = {2},
                      .page = shapes.page,
                      .max_pages = shapes.max_pages},
                     lengths, seed) {}

  const DrawnCall& drawn() const { return drawn_; }
  const char* op() const { return op_; }

 private:
  struct Drawing {
    const char* op;
    Example example;
    std::vector<std::size_t> caches;  ///< of its inputs
    std::int64_t page, max_pages;
    bool heads_first = false;
  };

  /// Inputs 3 and 4 are the table and lengths.
  PoisonedCall(const Drawing& shapes, const Lengths& lengths, std::uint64_t seed)
      : op_(shapes.op), drawn_(Registry::process().get(shapes.op), shapes.example, seed) {
    std::mt19937_64 random(seed);
    std::vector<std::int64_t> blocks(static_cast<std::size_t>(drawn_.tensors[shapes.caches[0]].shape()[0]));
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
    for (const std::size_t cache : shapes.caches) {
      const Tensor& tensor = drawn_.tensors[cache];
      for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        const Dims& shape = tensor.shape();
        const std::int64_t width = shape[shape.size() - 1], of_block = tensor.numel() / shape[0], block = i / of_block,
                           place =
                               shapes.heads_first ? i / width % shapes.page : i % of_block / (of_block / shapes.page);
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

  static Example example_of(const PagedLatents& shapes, const Lengths& lengths, Attributes attributes) {
    const auto batch = static_cast<std::int64_t>(lengths.size()), blocks = batch * shapes.max_pages + 3,
               width = shapes.latent + shapes.rotary;
    if (attributes.find("scale") == nullptr) attributes.set("scale", 0.0625);
    attributes.set("return_lse", true);
    return {{{shapes.dtype, {batch, shapes.queries, shapes.heads, shapes.latent}},
             {shapes.dtype, {batch, shapes.queries, shapes.heads, shapes.rotary}},
             {shapes.dtype, shapes.has_head ? Dims{blocks, shapes.page, 1, width} : Dims{blocks, shapes.page, width}},
             {DType::i32, {batch, shapes.max_pages}},
             {DType::i32, {batch}}},
            attributes};
  }

  const char* op_;
  DrawnCall drawn_;
};

}  // namespace kiln::test
