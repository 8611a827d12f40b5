// Every op against its reference: all dtypes, shapes around the sizes that tiles have, layouts of every kind, random
// valid configs, on every target there is. The everyday run takes a few dtypes of each op; KILN_SWEEP says how much
// (tests/support/sweep_amount.hpp), and KILN_TEST_SEED repeats a run.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/inspection/comparison.hpp"
#include "registry/inspection/random_call_inputs.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/validation.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/guarded_tensor.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

constexpr int kMostFailures = 4;  // of one op: the first few tell the story

bool full_sweep() {
  return sweep_amount() == SweepAmount::full;
}

/// `few` in the everyday run, `some` in a whole sweep, ten times as many in a full one.
int random_calls(int few, int some) {
  switch (sweep_amount()) {
    case SweepAmount::part:
      return few;
    case SweepAmount::whole:
      return some;
    case SweepAmount::full:
      break;
  }
  return 10 * some;
}

/// Each dtype compiles kernels of its own, so that the everyday run takes three.
std::vector<DType> swept_dtypes(const OpSpec& spec, std::mt19937_64& random) {
  return swept<DType>({spec.dtypes.begin(), spec.dtypes.end()}, 3, random);
}

enum class Layouts : std::uint8_t {
  dense,
  turned,  ///< matrices as they are or transposed, in rows that are longer than the matrix
  random,
};

/// One call to make and check.
struct Case {
  std::vector<TensorMeta> inputs;
  Attributes attributes;
  std::vector<InputRange> ranges = {};  ///< see Example
  Layouts layouts = Layouts::dense;
  bool may_repeat = true;  ///< random layouts show elements more than once
  bool random_config = false;
  bool special_values = false;
  bool in_place = false;
  bool pinned = false;  ///< inputs that may lie in pinned host memory do
};

class Sweep {
 public:
  Sweep(const OpSpec& spec, Device device, std::uint64_t seed)
      : spec_(spec), device_(device), target_(target_of(device)), random_(seed) {}

  /// False when the op refuses the inputs; failures are recorded as test failures.
  bool run(const Case& test) {
    std::vector<GuardedTensor> inputs;
    std::vector<TensorView> views;
    for (const TensorMeta& meta : test.inputs) {
      const bool may_repeat = test.may_repeat && !test.in_place && !is_changed(inputs.size());
      inputs.emplace_back(meta.dtype, meta.shape, layout(test.layouts, meta.shape, may_repeat));
      fill(inputs.back(), inputs.size() - 1, test);
      views.push_back(meta.absent ? TensorView{} : inputs.back().host_view());
    }
    const Attributes complete = complete_attributes(spec_, test.attributes);
    std::vector<TensorMeta> metas;
    try {
      metas = spec_.infer(views, complete);
    } catch (const UsageError&) {
      return false;
    }
    const std::vector<Tensor> addressed =
        fill_selecting_inputs(validated_call(spec_, views, complete, {.seen_on = Device::cpu()}), random_(),
                              {.spoiled = random_() % 4 != 0, .addressed = device_});
    for (GuardedTensor& tensor : inputs) tensor.remember();
    std::vector<Tensor> device_inputs, device_outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      device_inputs.push_back(test.inputs[i].absent                        ? Tensor{}
                              : test.pinned && input_spec(spec_, i).pinned ? inputs[i].upload_pinned(device_)
                                                                           : inputs[i].upload(device_));
    const std::vector<TensorView> device_views(device_inputs.begin(), device_inputs.end());
    const AddressedCopies copies = copy_addressed(
        validated_call(spec_, device_views, complete, {.stream = Stream::default_of(device_)}), Device::cpu());

    const bool in_place = test.in_place && !views.empty() && metas[0].shape == views[0].shape &&
                          (spec_.random_example ? metas[0].dtype == views[0].dtype
                                                : itemsize_bytes(metas[0].dtype) == itemsize_bytes(views[0].dtype));
    std::vector<GuardedTensor> outputs, expected;
    for (const TensorMeta& meta : metas) {
      outputs.emplace_back(meta.dtype, meta.shape, layout(test.layouts, meta.shape, false));
      expected.emplace_back(meta.dtype, meta.shape, dense_layout(meta.shape));
    }
    std::vector<TensorView> wanted, reference_inputs = views;
    for (const GuardedTensor& tensor : expected) wanted.push_back(tensor.host_view());
    std::vector<std::size_t> changed;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_changed(i) || test.inputs[i].absent) continue;
      changed.push_back(i);
      expected.emplace_back(test.inputs[i].dtype, test.inputs[i].shape, dense_layout(test.inputs[i].shape));
      expected.back().copy_elements(inputs[i]);
      reference_inputs[i] = input_spec(spec_, i).points_to ? copies.inputs[i] : expected.back().host_view();
    }
    spec_.reference({reference_inputs, wanted, complete});

    for (GuardedTensor& tensor : outputs) device_outputs.push_back(tensor.upload(device_));
    if (in_place) {
      TensorView view = device_inputs[0].view();
      view.dtype = metas[0].dtype;
      device_outputs[0] = Tensor(view, device_inputs[0].owner());
    }
    std::optional<Config> config;
    if (test.random_config) config = pick_config(device_inputs, device_outputs, complete);
    std::ostringstream call;
    call << "op " << spec_.name << " on " << to_string(device_) << (in_place ? ", in place" : "") << ", config "
         << (config.has_value() ? to_string(*config) : "default");
    for (const Tensor& tensor : device_inputs) call << "\n  input " << describe(tensor);
    for (const Tensor& tensor : device_outputs) call << "\n  output " << describe(tensor);
    for (const auto& [name, value] : test.attributes.entries()) call << "\n  " << name << " = " << to_string(value);
    try {
      dispatch_gpu_op(spec_.name, device_inputs, test.attributes,
                      {.outputs = device_outputs, .config = config.has_value() ? &*config : nullptr});
      synchronize(Stream::default_of(device_));
    } catch (const Error& error) {
      fail(call.str(), error.what());
      return true;
    }
    ++calls_;
    variants_.insert(chosen(device_inputs, device_outputs, complete).variant->name);
    for (GuardedTensor& tensor : inputs) tensor.download();
    for (GuardedTensor& tensor : outputs) tensor.download();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (const std::string damage = inputs[i].damage(is_changed(i) || (in_place && i == 0)); !damage.empty())
        fail(call.str(), is_changed(i) ? "written outside the elements: " + damage : "an input was written: " + damage);
    for (std::size_t i = 0; i < addressed.size(); ++i)
      if (const Comparison compared = compare_bytes(copies.originals[i].memory, copies.copies[i]); !compared.ok())
        fail(call.str(), std::to_string(compared.num_wrong) + " bytes at address " + std::to_string(i) + " are wrong");
    for (std::size_t i = 0; i < changed.size(); ++i)
      compare(call.str(), inputs[changed[i]], expected[outputs.size() + i], views);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (const std::string damage = outputs[i].damage(!(in_place && i == 0)); !damage.empty())
        fail(call.str(), "written outside the output: " + damage);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      compare(call.str(), in_place && i == 0 ? inputs[0] : outputs[i], expected[i], views);
    return true;
  }

  void report(std::uint64_t seed) const {
    EXPECT_GT(calls_, 0);
    std::cout << spec_.name << " on " << to_string(device_) << ": " << calls_ << " calls checked, seed " << seed
              << "\n";
  }

  /// Of the calls that were checked.
  const std::set<std::string>& variants() const { return variants_; }
  bool done() const { return failures_ >= kMostFailures; }
  std::mt19937_64& random() { return random_; }

 private:
  bool is_changed(std::size_t input) const { return input_spec(spec_, input).mutated; }

  InputRange range_of(std::size_t input) const {
    return input < spec_.input_ranges.size() ? spec_.input_ranges[input] : InputRange{};
  }

  Layout layout(Layouts layouts, const Dims& shape, bool may_repeat) {
    if (layouts == Layouts::random) return random_layout(shape, may_repeat, random_);
    if (layouts == Layouts::dense || shape.size() < 2) return dense_layout(shape);
    Layout result{shape, static_cast<std::int64_t>(random_() % 3)};
    const int row = shape.size() - 2, column = shape.size() - 1;
    const bool is_turned = random_() % 2 == 0;
    result.strides[is_turned ? row : column] = 1;
    std::int64_t stride = std::max<std::int64_t>(shape[is_turned ? row : column], 1) +
                          (random_() % 2 == 0 ? static_cast<std::int64_t>(random_() % 40) : 0);
    result.strides[is_turned ? column : row] = stride;
    stride *= std::max<std::int64_t>(shape[is_turned ? column : row], 1);
    for (int axis = row - 1; axis >= 0; --axis) {
      result.strides[axis] = stride;
      stride *= std::max<std::int64_t>(shape[axis], 1);
    }
    return result;
  }

  void fill(GuardedTensor& tensor, std::size_t input, const Case& test) {
    const DType dtype = tensor.host_view().dtype;
    if (input < test.ranges.size() && !is_floating(dtype)) return tensor.fill_integers(test.ranges[input], random_);
    const InputRange range = input < test.ranges.size() ? test.ranges[input] : range_of(input);
    if (!spec_.random_example) return tensor.fill_random(range, test.special_values, random_);
    // Ops that combine elements: a value near the dtype's limits would make the result depend on the order of rounding,
    // and a quarter of special values would make every result NaN.
    tensor.fill_random(range, false, random_);
    // An infinite weight times an element at the mean is NaN; rounded to either side of the mean, infinite.
    const bool is_decided_by_rounding = spec_.name == "layer_norm" && spec_.inputs[input].name == "weight";
    if (test.special_values && is_floating(dtype) && !is_decided_by_rounding) tensor.sprinkle_nonfinite(random_);
  }

  /// Of the blocks that a view shows; gaps between them are nobody's.
  static Comparison compare_bytes(const TensorView& got, const TensorView& want) {
    const auto bytes_of = [](const Tensor& tensor) {
      return dense_view(tensor.data(), DType::u8, {tensor.numel() * itemsize_bytes(tensor.dtype())});
    };
    const Tensor got_host = to_device(got, Device::cpu()), want_host = to_device(want, Device::cpu());
    return kiln::compare(bytes_of(got_host), bytes_of(want_host), {});
  }

  Choice chosen(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs, const Attributes& attributes) {
    const std::vector<TensorView> input_views(inputs.begin(), inputs.end()),
        output_views(outputs.begin(), outputs.end());
    return choose(validated_call(spec_, input_views, attributes, {.outputs = output_views}), target_, nullptr);
  }

  Config pick_config(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                     const Attributes& attributes) {
    const std::vector<Config> configs = chosen(inputs, outputs, attributes).variant->space(target_).enumerate();
    return configs.at(random_() % configs.size());
  }

  /// `got` may hold the bytes of `want`'s dtype under another dtype of the same size (in place).
  void compare(const std::string& call, const GuardedTensor& got, const GuardedTensor& want,
               const std::vector<TensorView>& inputs) {
    const DType dtype = want.host_view().dtype;
    const Tolerance tolerance = spec_.tolerance(dtype);
    std::vector<std::int64_t> offsets;
    for_each_element(want.host_view(), [&](std::int64_t offset) { offsets.push_back(offset); });
    std::size_t index = 0, wrong = 0;
    std::string first;
    for_each_element(got.host_view(), [&](std::int64_t offset) {
      const std::byte* expected = want.at(offsets[index]);
      if (!element_matches(dtype, got.at(offset), expected, tolerance) && ++wrong == 1)
        first = "element " + std::to_string(index) + " is " + show_element(dtype, got.at(offset)) + ", expected " +
                show_element(dtype, expected) +
                operands(inputs, want.host_view().shape, static_cast<std::int64_t>(index));
      ++index;
    });
    if (wrong > 0) fail(call, std::to_string(wrong) + " of " + std::to_string(index) + " elements are wrong; " + first);
  }

  /// " (inputs 1.5, 2)" at one output element, where the inputs broadcast to the output and were not overwritten.
  static std::string operands(const std::vector<TensorView>& inputs, const Dims& shape, std::int64_t index) {
    std::string text;
    for (const TensorView& input : inputs) {
      std::int64_t rest = index, offset = 0;
      if (input.ndim() > shape.size()) return {};
      for (int from_end = 1; from_end <= shape.size(); ++from_end) {
        const std::int64_t coordinate = rest % shape[shape.size() - from_end];
        rest /= shape[shape.size() - from_end];
        if (from_end > input.ndim()) continue;
        const int axis = input.ndim() - from_end;
        if (input.shape[axis] > 1 && coordinate >= input.shape[axis]) return {};
        if (input.shape[axis] > 1) offset += coordinate * input.strides[axis];
      }
      text +=
          (text.empty() ? " (inputs " : ", ") +
          show_element(input.dtype, static_cast<const std::byte*>(input.data) + offset * itemsize_bytes(input.dtype));
    }
    return text.empty() ? text : text + ")";
  }

  void fail(const std::string& call, const std::string& what) {
    ++failures_;
    ADD_FAILURE() << call << "\n" << what;
  }

  const OpSpec& spec_;
  Device device_;
  Target target_;
  std::mt19937_64 random_;
  int failures_ = 0;
  int calls_ = 0;
  std::set<std::string> variants_;
};

/// Calls of the op's own making until there were enough and every dtype was among them.
void sweep_random_examples(Sweep& sweep, const OpSpec& spec) {
  const int least = random_calls(20, 60), most = 10 * least;
  std::mt19937_64& random = sweep.random();
  const std::vector<DType> swept = swept_dtypes(spec, random);
  std::set<DType> unseen(swept.begin(), swept.end());
  for (int i = 0; (i < least || !unseen.empty()) && i < most && !sweep.done(); ++i) {
    const Example example = random_call(spec, random);
    if (i >= least && std::none_of(example.inputs.begin(), example.inputs.end(),
                                   [&](const TensorMeta& meta) { return unseen.contains(meta.dtype); }))
      continue;
    for (const TensorMeta& meta : example.inputs) unseen.erase(meta.dtype);
    Case test{.inputs = example.inputs,
              .attributes = example.attributes,
              .ranges = example.ranges,
              .layouts = random() % 4 != 0 ? Layouts::random : Layouts::dense,
              .random_config = random() % 3 == 0,
              .special_values = random() % 3 == 0,
              .in_place = spec.aliasing != Aliasing::none && random() % 6 == 0,
              .pinned = random() % 2 == 0};
    if (test.layouts != Layouts::dense && sweep.run(test)) continue;
    test.layouts = Layouts::dense;  // an op may ask for rows that are dense
    EXPECT_TRUE(sweep.run(test)) << "op " << spec.name << " refuses a call of its own random_example";
  }
  EXPECT_TRUE(unseen.empty() || spec.inputs.empty() || sweep.done())
      << "op " << spec.name << " lists dtype " << name(*unseen.begin()) << ", but its random_example never uses it";
}

/// The example with the dtype of its last input replaced by `dtype`, wherever that occurs (a condition stays boolean),
/// and one shape for all inputs.
std::vector<TensorMeta> retyped(const Example& example, DType dtype) {
  std::vector<TensorMeta> inputs = example.inputs;
  if (inputs.empty()) return inputs;
  const DType replaced = inputs.back().dtype;
  for (TensorMeta& meta : inputs)
    if (meta.dtype == replaced) meta.dtype = dtype;
  return inputs;
}

std::int64_t random_extent(std::mt19937_64& random) {
  constexpr std::int64_t kExtents[] = {1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257};
  return kExtents[random() % std::size(kExtents)];
}

/// A shape of at most about 20000 elements; sometimes empty.
Dims random_shape(std::mt19937_64& random) {
  Dims shape;
  std::int64_t elements = 1;
  const auto rank = static_cast<int>(random() % 5);
  for (int axis = 0; axis < rank; ++axis) {
    std::int64_t extent = random_extent(random);
    while (elements * extent > 20000) extent = extent / 2 + (extent == 1 ? 1 : 0);
    if (random() % 40 == 0) extent = 0;
    elements *= std::max<std::int64_t>(extent, 1);
    shape.push_back(extent);
  }
  return shape;
}

/// Shapes that broadcast to `shape`: leading dimensions dropped, others set to 1.
Dims broadcast_operand(const Dims& shape, std::mt19937_64& random) {
  Dims operand;
  const int dropped = random() % 3 == 0 ? static_cast<int>(random() % static_cast<unsigned>(shape.size() + 1)) : 0;
  for (int axis = dropped; axis < shape.size(); ++axis) operand.push_back(random() % 4 == 0 ? 1 : shape[axis]);
  return operand;
}

class RegistrySweep : public ::testing::TestWithParam<std::string> {};

TEST_P(RegistrySweep, AgreesWithItsReference) {
  const OpSpec& spec = Registry::process().get(GetParam());
  ASSERT_TRUE(spec.reference) << "op " << spec.name << " has no reference";
  ASSERT_TRUE(spec.tolerance) << "op " << spec.name << " has no tolerance";
  ASSERT_FALSE(spec.examples.empty()) << "op " << spec.name << " has no examples";
  const std::vector<Device> devices = available_devices();
  if (devices.empty())
    GTEST_SKIP() << "no target: " << compiler_problem(DeviceType::cpu) << "; " << device_problem(DeviceType::cuda);
  const std::uint64_t seed = sweep_seed();
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(seed));

  for (const Device device : devices) {
    Sweep sweep(spec, device, seed);
    for (const Example& example : spec.examples) {
      std::vector<TensorMeta> inputs = example.inputs;
      std::int64_t elements = 0;
      for (const TensorMeta& meta : inputs) elements = std::max(elements, num_elements(meta.shape));
      if (elements > 1'000'000 && !full_sweep()) continue;
      EXPECT_TRUE(sweep.run({.inputs = inputs, .attributes = example.attributes, .ranges = example.ranges}))
          << "op " << spec.name << " refuses its own example";
    }

    if (spec.random_example) {
      sweep_random_examples(sweep, spec);
      sweep.report(seed);
      continue;
    }

    // One shape for all inputs: the contiguous kernel at sizes around its blocks, for every dtype.
    const std::vector<DType> dtypes = swept_dtypes(spec, sweep.random());
    for (const DType dtype : dtypes) {
      bool accepted = false;
      for (const std::int64_t size : {0, 1, 2, 31, 64, 97, 127, 128, 129, 255, 257, 1009, 4096, 4097}) {
        if (sweep.done()) break;
        const Example& example = spec.examples[sweep.random()() % spec.examples.size()];
        std::vector<TensorMeta> inputs = retyped(example, dtype);
        for (TensorMeta& meta : inputs) meta.shape = Dims{size};
        accepted |= sweep.run({.inputs = inputs, .attributes = example.attributes, .special_values = size % 2 == 1});
      }
      // A dtype that only one input may have, beside the others of an example.
      for (const Example& example : spec.examples)
        for (std::size_t i = 0; i < example.inputs.size() && !accepted; ++i) {
          std::vector<TensorMeta> inputs = example.inputs;
          inputs[i].dtype = dtype;
          accepted = sweep.run({.inputs = inputs, .attributes = example.attributes});
        }
      EXPECT_TRUE(accepted || sweep.done())
          << "op " << spec.name << " lists dtype " << name(dtype) << ", but refuses it";
    }

    const int random_cases = random_calls(6, 16);
    for (int i = 0; i < random_cases && !sweep.done(); ++i) {
      std::mt19937_64& random = sweep.random();
      const Example& example = spec.examples[random() % spec.examples.size()];
      const std::vector<TensorMeta> original = example.inputs;
      std::vector<TensorMeta> inputs =
          random() % 2 == 0 ? original : retyped(example, dtypes[random() % dtypes.size()]);
      const Dims shape = random_shape(random);
      for (TensorMeta& meta : inputs)
        meta.shape = inputs.size() > 1 && random() % 2 == 0 ? broadcast_operand(shape, random) : shape;
      Case test{.inputs = inputs,
                .attributes = example.attributes,
                .layouts = random() % 4 != 0 ? Layouts::random : Layouts::dense,
                .random_config = random() % 3 == 0,
                .special_values = random() % 3 == 0,
                .in_place = spec.aliasing != Aliasing::none && random() % 6 == 0};
      if (!sweep.run(test)) {  // an op with a shape rule of its own: its example's shapes in other layouts
        test.inputs = original;
        EXPECT_TRUE(sweep.run(test)) << "op " << spec.name << " refuses its own example";
      }
    }
    sweep.report(seed);
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, RegistrySweep, ::testing::ValuesIn(Registry::process().names()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(name.begin(), name.end(), [](char letter) { return letter == '.' || letter == ':'; }, '_');
  return name;
});

/// A side of a product: a number that lies around a power of two of these.
std::int64_t large_side(int first_power, std::mt19937_64& random) {
  const auto power = first_power + static_cast<int>(random() % static_cast<unsigned>(11 - first_power));
  return (std::int64_t{1} << power) + static_cast<std::int64_t>(random() % 5) - 2;
}

/// Any small number, or what lies around powers of two.
std::int64_t random_side(std::mt19937_64& random) {
  return random() % 2 == 0 ? 1 + static_cast<std::int64_t>(random() % 40) : large_side(5, random);
}

struct ProductSides {
  std::int64_t m, n, k;
  std::int64_t products() const { return m * n * k; }
};

/// A third of any sides, a third of few rows and a large matrix, a third with much to sum.
ProductSides random_sides(std::mt19937_64& random) {
  switch (random() % 3) {
    case 0:
      return {random_side(random), random_side(random), random_side(random)};
    case 1:
      return {1 + static_cast<std::int64_t>(random() % 10), large_side(8, random), large_side(8, random)};
    default:
      return {random_side(random), random_side(random), large_side(9, random)};
  }
}

/// A product of f32 or f64 of larger matrices than the ops' random examples have, in `linear` or `matmul`, sometimes of
/// a batch of one operand or of both, with addends of every kind and each activation.
std::pair<const char*, Example> random_product(std::mt19937_64& random) {
  // The reference takes some nanoseconds for each multiply-add.
  const std::int64_t most_products = random() % 16 == 0 ? 40'000'000 : 4'000'000;
  ProductSides sides = random_sides(random);
  while (sides.products() > most_products) sides = random_sides(random);
  const auto [m, n, k] = sides;
  const DType dtype = random() % 3 == 0 ? DType::f64 : DType::f32;
  Dims batch;
  if (random() % 4 == 0)
    for (std::int64_t room = most_products / sides.products(); batch.size() < 2 && room > 1;
         room /= batch[batch.size() - 1])
      batch.push_back(1 + static_cast<std::int64_t>(random() % std::min<std::uint64_t>(room, 5)));
  const auto matrix = [&](const Dims& dims, std::int64_t rows, std::int64_t columns) {
    Dims shape = dims;
    shape.push_back(rows);
    shape.push_back(columns);
    return TensorMeta{dtype, shape};
  };
  Attributes attributes;
  if (random() % 2 == 0) {
    constexpr const char* kActivations[] = {"none", "relu", "gelu", "silu"};
    Example example{{matrix(batch, m, k), matrix({}, n, k)}, {}};
    if (random() % 2 == 0) example.inputs.push_back({dtype, {n}});
    example.attributes.set("activation", std::string(kActivations[random() % 4]));
    return {"linear", example};
  }
  Example example{{matrix(broadcast_operand(batch, random), m, k), matrix(broadcast_operand(batch, random), k, n)}, {}};
  if (random() % 3 == 0) {
    example.inputs.push_back({dtype, broadcast_operand({m, n}, random)});
    example.attributes.set("beta", 0.5);
  }
  if (random() % 4 == 0) example.attributes.set("alpha", -0.25);
  return {"matmul", example};
}

/// Products for which kernels differ by shape and layout, of which the sweep of one op makes few. Rows of one number
/// are not among them: rounding errors of so many equal products go one way, the reference's of f64 too, and exceed a
/// tolerance that counts on random ones.
TEST(ProductSweep, AgreesWithTheReference) {
  const std::vector<Device> devices = available_devices();
  if (devices.empty()) GTEST_SKIP() << "no target";
  const std::uint64_t seed = sweep_seed();
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(seed));
  for (const Device device : devices) {
    Sweep sweeps[] = {{Registry::process().get("matmul"), device, seed},
                      {Registry::process().get("linear"), device, seed + 1}};
    std::mt19937_64 random(seed);
    for (int i = random_calls(200, 400); i > 0; --i) {
      const auto [op, example] = random_product(random);
      Sweep& sweep = sweeps[std::string_view(op) == "linear" ? 1 : 0];
      if (sweep.done()) break;
      EXPECT_TRUE(sweep.run({.inputs = example.inputs,
                             .attributes = example.attributes,
                             .layouts = random() % 4 != 0 ? Layouts::turned : Layouts::random,
                             .may_repeat = false,
                             .random_config = random() % 6 == 0}))
          << "op " << op << " refuses a product";
    }
    for (const Sweep& sweep : sweeps) sweep.report(seed);
    if (device.is_cuda() || sweeps[0].done()) continue;
    for (const char* variant : {"stream", "inner", "outer", "blocked", "blocked_f64"})
      EXPECT_TRUE(sweeps[0].variants().contains(variant)) << "no product of " << variant;
  }
}

TEST(RegistrySweepCoverage, HasOps) {
  EXPECT_GE(Registry::process().names().size(), 60u);
}

}  // namespace
}  // namespace kiln::test
