#include "ops/attention/paged_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/errors.hpp"
#include "ops/attention/shared_contract.hpp"
#include "ops/common/block_choice.hpp"
#include "ops/kv_cache/paged_call.hpp"

namespace kiln::attention {
namespace {

std::int64_t checked_tokens(std::string_view op, const TensorView& table, const TableShape& shape, std::int64_t pages) {
  const std::int64_t most_tokens = shape.num_blocks == 0 ? 0 : pages * shape.page;
  if (std::max(most_tokens, shape.rows) > kMostCounted)
    throw_value_error(
        fmt::format("op '{}': input 'block_table' of shape {} has room for {} tokens a request and '{}' has {} rows a "
                    "head of '{}', expected no more than {}",
                    op, to_string(table.shape), most_tokens, shape.query, shape.rows, shape.cache, kMostCounted));
  return most_tokens;
}

}  // namespace

AttributeSpec paged_causal_spec() {
  return {"causal", std::string("bottom_right"), false,
          "\"bottom_right\": query i sees keys up to its own place, length - Sq + i; \"none\": all of them"};
}

AttributeSpec num_splits_spec() {
  return {"num_splits", std::int64_t{0}, false,
          "parts that a request's keys are taken in, at the same time; 0: chosen from shapes and multiprocessors"};
}

InputSpec paged_index_input(std::string name, std::string doc, std::function<std::int64_t(const OpCall&)> last) {
  InputSpec input{std::move(name), std::move(doc)};
  input.dtypes = {DType::i32, DType::i64};
  input.selects = [last = std::move(last)](const OpCall& call) -> std::vector<SelectionRange> {
    return {{.low = 0, .high = last(call)}};
  };
  return input;
}

ShapeKeyRule::Part varying_extent(int input, int axis) {
  return {.input = input, .axis = axis, .bucket = ShapeKeyRule::Bucket::power_of_two, .exact_up_to = 16};
}

bool is_causal_over_pages(std::string_view op, const Attributes& attributes) {
  const std::string& causal = attributes.get_string("causal");
  if (causal != "none" && causal != "bottom_right")
    throw_value_error(fmt::format(
        "op '{}': attribute 'causal' is \"{}\", expected \"bottom_right\" (a query sees keys up to its own place) or "
        "\"none\"; the last query stands at the request's last token",
        op, causal));
  return causal == "bottom_right";
}

std::int64_t num_splits_of(std::string_view op, const Attributes& attributes) {
  const std::int64_t num_splits = attributes.get_int("num_splits");
  if (num_splits < 0)
    throw_value_error(fmt::format(
        "op '{}': attribute 'num_splits' is {}, expected parts that a request's keys are taken in, or 0 to choose them",
        op, num_splits));
  return num_splits;
}

std::int64_t most_tokens_of(std::string_view op, const TensorView& table, const TensorView& lengths,
                            const TableShape& shape) {
  kv_cache::check_rank(op, "block_table", table, 2, "[B, max_pages]");
  kv_cache::check_rank(op, "seq_lens", lengths, 1, "[B], a length for each request");
  check_extent(op, "block_table", "requests", table.shape[0], shape.query, shape.batch);
  check_extent(op, "seq_lens", "requests", lengths.shape[0], shape.query, shape.batch);
  return checked_tokens(op, table, shape, table.shape[1]);
}

std::int64_t most_tokens_of_list(std::string_view op, const PageList& list, const TableShape& shape) {
  kv_cache::check_rank(op, "block_table", list.pages, 1, "[pages of all requests], as there is a page_indptr");
  kv_cache::check_rank(op, "seq_lens", list.last_lengths, 1, "[B], the tokens of each request's last page");
  kv_cache::check_rank(op, list.starts_name, list.starts, 1, "[B + 1], where each request's pages begin");
  check_extent(op, "seq_lens", "requests", list.last_lengths.shape[0], shape.query, shape.batch);
  if (list.starts.shape[0] != shape.batch + 1)
    throw_value_error(fmt::format("op '{}': input '{}' has {} numbers, expected {}, one more than '{}' has requests",
                                  op, list.starts_name, list.starts.shape[0], shape.batch + 1, shape.query));
  if (list.starts.dtype != list.pages.dtype)
    throw_type_error(fmt::format("op '{}': input '{}' is {}, expected {}, as 'block_table' is; cast it", op,
                                 list.starts_name, name(list.starts.dtype), name(list.pages.dtype)));
  return checked_tokens(op, list.pages, shape, list.pages.shape[0]);
}

std::int64_t cpu_page_keys(std::int64_t page, std::int64_t most_tokens, std::int64_t most) {
  constexpr std::int64_t kLeast = 16;
  std::int64_t keys = kLeast;
  if (page % keys != 0) return std::max(kLeast, common::block_over(most_tokens, {kLeast, most}));
  while (page % (2 * keys) == 0 && 2 * keys <= std::min(most_tokens, most)) keys *= 2;
  return keys;
}

}  // namespace kiln::attention
