// Inputs whose values choose memory or amounts of work: that every op states what they may be, that random ones come
// from the whole of it, and that what a call skips is counted.

#include "registry/tuning/selected_entries.hpp"
#include "registry/plan/numbered_tensors.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/builtin_ops.hpp"
#include "registry/plan/validation.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "runtime/memory.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/op_case.hpp"

namespace kiln::test {
namespace {

constexpr int kRandomCalls = 40;

bool may_be_index(DType dtype) {
  return !is_floating(dtype) && dtype != DType::bool_;
}

std::vector<Example> calls_of(const OpSpec& spec, std::mt19937_64& random) {
  std::vector<Example> calls = spec.examples;
  for (int i = 0; i < kRandomCalls && spec.random_example; ++i) calls.push_back(spec.random_example(random));
  return calls;
}

void fill(const Tensor& tensor, std::int64_t value) {
  const Tensor filled =
      make_integers(tensor.dtype(), tensor.shape(),
                    std::vector<std::int64_t>(static_cast<std::size_t>(tensor.numel()), value), Device::cpu());
  copy(tensor, filled, Stream::default_of(Device::cpu()));
}

std::vector<std::int64_t> column_of(const Tensor& tensor, std::size_t column, std::size_t columns) {
  const std::vector<std::int64_t> bits = read_bits(tensor);
  std::vector<std::int64_t> values;
  for (std::size_t i = column; i < bits.size(); i += columns)
    values.push_back(tensor.dtype() == DType::i32 ? static_cast<std::int32_t>(bits[i]) : bits[i]);
  return values;
}

/// An input that is always of integers, and beside tensors of other dtypes too, names something: rows, slots, counts,
/// addresses.
std::set<std::string> inputs_that_name_something(const OpSpec& spec, std::mt19937_64& random) {
  std::map<std::size_t, bool> always_integer, beside_others;
  for (const Example& call : calls_of(spec, random))
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.inputs[i].absent) continue;
      always_integer.try_emplace(i, true).first->second &= may_be_index(call.inputs[i].dtype);
      beside_others[i] |=
          std::ranges::any_of(call.inputs, [](const TensorMeta& meta) { return !may_be_index(meta.dtype); });
    }
  std::set<std::string> names;
  for (const auto& [i, is] : always_integer)
    if (is && beside_others[i]) names.insert(input_spec(spec, i).name);
  return names;
}

TEST(SelectedEntriesTest, EveryInputThatNamesSomethingStatesItsRange) {
  std::mt19937_64 random(1);
  std::set<std::string> ops;
  for (const OpSpec& spec : builtin_ops()) {
    std::set<std::string> stated;
    for (const InputSpec& input : spec.inputs)
      if (input.selects || input.points_to) stated.insert(input.name);
    EXPECT_EQ(inputs_that_name_something(spec, random), stated) << spec.name;
    if (!stated.empty()) ops.insert(spec.name);
  }
  EXPECT_THAT(ops, ::testing::IsSupersetOf({"index_select", "gather", "scatter_add", "kv_append", "kv_append_layers",
                                            "kv_gather_paged", "swap_blocks", "sparse_kv_gather", "kv_scatter"}));
}

void expect_legal_and_spread(const Tensor& tensor, std::span<const SelectionRange> ranges) {
  for (std::size_t column = 0; column < ranges.size(); ++column) {
    const auto [low, high, distinct, ascending] = ranges[column];
    std::vector<std::int64_t> values = column_of(tensor, column, ranges.size());
    if (ascending) {
      EXPECT_TRUE(std::ranges::is_sorted(values));
    }
    const std::int64_t available = std::max<std::int64_t>(high - low + 1, 0);
    const auto skipped = std::erase(values, -1);
    const auto num_entries = static_cast<std::int64_t>(values.size() + skipped);
    const std::int64_t without_value =
        distinct ? std::max<std::int64_t>(num_entries - available, 0) : (available == 0 ? num_entries : 0);
    EXPECT_EQ(static_cast<std::int64_t>(skipped), without_value);
    EXPECT_THAT(values, Each(AllOf(Ge(low), Le(high))));
    const std::set<std::int64_t> different(values.begin(), values.end());
    if (distinct) {
      EXPECT_EQ(different.size(), values.size());
    }
    if (values.size() < 50 || available < 10) continue;
    EXPECT_LE(*different.begin(), low + available / 4);
    EXPECT_GE(*different.rbegin(), high - available / 4);
    EXPECT_GE(static_cast<std::int64_t>(different.size()), std::min<std::int64_t>(num_entries, available) / 3);
  }
}

TEST(SelectedEntriesTest, DrawnEntriesAreLegalAndFromTheWholeRange) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const OpSpec& spec : builtin_ops()) {
    if (std::ranges::none_of(spec.inputs, [](const InputSpec& input) { return static_cast<bool>(input.selects); }))
      continue;
    for (const Example& example : calls_of(spec, random)) {
      const DrawnCall drawn(spec, example, random());
      for (std::size_t i = 0; i < drawn.views.size(); ++i) {
        const InputSpec& input = input_spec(spec, i);
        if (!input.selects || is_absent(drawn.views[i])) continue;
        SCOPED_TRACE(spec.name + " " + input.name + " " + to_string(drawn.views[i].shape));
        expect_legal_and_spread(drawn.tensors[i], input.selects(drawn.call()));
      }
    }
  }
}

TEST(SelectedEntriesTest, AddressesAreOfMemoryThatIsThere) {
  for (const OpSpec& spec : builtin_ops()) {
    if (!holds_addresses(spec)) continue;
    const DrawnCall drawn(spec, spec.examples.front(), 5);
    const std::vector<AddressedMemory> found = addressed_memory(drawn.validated());
    ASSERT_EQ(found.size(), drawn.addressed.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].memory.data, drawn.addressed[i].data());
      EXPECT_GT(found[i].memory.numel(), 0);
    }
    spec.reference(drawn.call());
    std::int64_t written = 0;
    for (const Tensor& memory : drawn.addressed) {
      const std::vector<std::int64_t> bits = read_bits(memory);
      written += static_cast<std::int64_t>(bits.size()) - std::ranges::count(bits, 0);
    }
    EXPECT_GT(written, drawn.views[0].numel()) << spec.name << " has nothing to do";
  }
}

// A share that is skipped can be told for each op, whatever brings it about.
TEST(SelectedEntriesTest, WhatIsSkippedIsCounted) {
  std::mt19937_64 random(3);
  for (const OpSpec& spec : builtin_ops()) {
    const bool selects = std::ranges::any_of(
        spec.inputs, [](const InputSpec& input) { return (input.selects && !input.mutated) || input.points_to; });
    for (const Example& example : selects ? calls_of(spec, random) : std::vector{spec.examples.front()}) {
      SCOPED_TRACE(spec.name);
      const DrawnCall drawn(spec, example, random());
      const auto work = skipped_work(drawn.validated());
      bool is_given = false;  // an optional one may be left out
      for (std::size_t i = 0; i < drawn.views.size(); ++i) {
        const InputSpec& input = input_spec(spec, i);
        is_given |= !is_absent(drawn.views[i]) && ((input.selects && !input.mutated) || input.points_to);
      }
      ASSERT_EQ(work.has_value(), is_given);
      if (!is_given || work->total == 0) continue;
      EXPECT_LE(work->skipped, work->total);
      for (std::size_t i = 0; i < drawn.views.size(); ++i) {
        const InputSpec& input = input_spec(spec, i);
        if (!input.selects || input.mutated || is_absent(drawn.views[i])) continue;
        const DrawnCall other(spec, example, 1);
        fill(other.tensors[i], -1);
        EXPECT_EQ(skipped_work(other.validated())->share(), 1) << input.name << " of -1";
      }
    }
  }
}

const OpSpec& spec_of(std::string_view name) {
  static const std::vector<OpSpec> specs = builtin_ops();
  return *std::ranges::find(specs, name, &OpSpec::name);
}

TEST(SelectedEntriesTest, SharesOfKnownCalls) {
  const auto share = [](std::string_view op, const std::vector<Tensor>& inputs, const Attributes& attributes) {
    const std::vector<TensorView> views(inputs.begin(), inputs.end());
    return skipped_work(validated_call(spec_of(op), views, attributes, {.seen_on = Device::cpu()}))->share();
  };
  const Device cpu = Device::cpu();
  const auto floats = [&](const Dims& shape) { return empty(shape, DType::f32, cpu); };
  const auto integers = [&](const Dims& shape, const std::vector<std::int64_t>& values) {
    return make_integers(DType::i64, shape, values, cpu);
  };
  EXPECT_EQ(share("index_select", {floats({5, 2}), integers({4}, {0, 4, 5, -1})}, {{"dim", std::int64_t{0}}}), 0.5);
  EXPECT_EQ(share("gather", {floats({5, 2}), integers({2, 2}, {0, 1, 2, 3})}, {{"dim", std::int64_t{-1}}}), 0.5);
  const Tensor cache = floats({4, 2, 1, 3}), rows = floats({4, 1, 3});
  EXPECT_EQ(share("kv_append", {rows, rows, cache, cache, integers({4}, {7, 8, -3, 0})}, {}), 0.5);
  EXPECT_EQ(share("swap_blocks", {cache, cache, integers({4, 2}, {0, 1, 1, -1, 4, 0, 3, 3})}, {}), 0.5);
  // Of 2 sequences of up to 4 tokens: 3 of the first, all of the second, whose second block is none.
  EXPECT_EQ(share("kv_gather_paged", {cache, integers({2, 2}, {0, 1, 2, 9}), integers({2}, {3, 8})},
                  {{"max_len", std::int64_t{4}}}),
            3.0 / 8);
  const Tensor table = floats({9, 4});
  EXPECT_EQ(share("sparse_kv_gather",
                  {table, table, integers({2, 2, 2}, {0, 0, 1, -1, 2, 2, 3, 3}), integers({2}, {2, 1})}, {}),
            0.5);
}

TEST(SelectedEntriesTest, AFewDistinctOnesOutOfVeryMany) {
  std::mt19937_64 random(1);
  const Tensor slots = empty({1000}, DType::i64, Device::cpu());
  const std::array<SelectionRange, 1> range{SelectionRange{0, std::int64_t{1} << 50, true}};
  draw_entries(slots, range, random);
  expect_legal_and_spread(slots, range);
}

TEST(SelectedEntriesTest, IndicesBeyondTheirDTypeAreNotDrawn) {
  std::mt19937_64 random(1);
  const Tensor slots = empty({1000}, DType::i32, Device::cpu());
  draw_entries(slots, std::array<SelectionRange, 1>{SelectionRange{0, std::int64_t{1} << 50, true}}, random);
  EXPECT_THAT(column_of(slots, 0, 1), Each(Ge(0)));
}

TEST(SelectedEntriesTest, ReportsSayWhatARateLeavesOut) {
  EXPECT_EQ(skipped_text(std::nullopt), "");
  EXPECT_EQ(skipped_text(SkippedWork{0, 10, "entries of 'index'"}), "");
  EXPECT_EQ(skipped_text(SkippedWork{44, 100, "entries of 'index'"}),
            "44.0% of the work: 44 of 100 entries of 'index'; rates count it as done");
}

}  // namespace
}  // namespace kiln::test
