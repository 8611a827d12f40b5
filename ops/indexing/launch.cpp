#include "ops/indexing/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "ops/common/attribute_reader.hpp"
#include "ops/common/block_choice.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/indexing/iteration_plan.hpp"

namespace kiln::indexing {
namespace {

/// Rows shorter than this go element by element: four bytes a lane of a warp, a short vector on the CPU.
constexpr std::int64_t kShortestCudaRowBytes = 128, kShortestCpuRowBytes = 8;
/// Most bytes of one row in one program: four warps with 16 bytes a thread.
constexpr std::int64_t kMostRowBytes = 2048;
/// What a GPU's program should read, so that launching it is not the limit and enough reads are in flight.
constexpr std::int64_t kProgramBytes = 4096;
/// What a CPU's program moves, some microseconds of it: bytes of rows, and elements one by one.
constexpr std::int64_t kCpuProgramBytes = 16 << 10, kCpuProgramElements = 4096;
/// Programs that fill a large GPU; with fewer rows than that, more of them at a time would leave it idle.
constexpr std::int64_t kPlentyOfPrograms = 1024;

/// A call as the kernels see it; tensors are its outputs and then its inputs.
struct IndexingCall {
  std::string_view op;
  Elements elements;
  Elements copied;  ///< scatter_add: x to out
  DType dtype = DType::f32, index = DType::i64;

  /// Moving an element takes no more than its bits.
  DType moved() const { return unsigned_dtype(itemsize_bytes(dtype)); }
  std::int64_t itemsize() const { return itemsize_bytes(dtype); }
};
using IndexingParser = common::CallParser<IndexingCall>;
using MakeElements = Elements (*)(const OpCall& call, int dim);

IndexingParser parser(std::string_view op, MakeElements make_elements, bool copies) {
  return IndexingParser([=](const OpCall& call) {
    IndexingCall result;
    result.op = op;
    result.elements = make_elements(call, axis_of(op, "dim", *call.attributes.find("dim"), call.inputs[0].ndim()));
    if (copies) result.copied = copy_elements(call.outputs[0], call.inputs[0]);
    result.dtype = call.outputs[0].dtype;
    result.index = call.inputs[1].dtype;
    return result;
  });
}

/// Checks the GPU's grid limit.
std::array<std::int64_t, 3> grid_of(std::string_view op, std::int64_t programs, const Target& target) {
  check_grid(op, programs, target);
  return {programs, 1, 1};
}

/// What a kernel writes, and reads in the order of its parameters.
struct Operand {
  int tensor;
  common::ElementType type;
};

KernelLaunch make_launch(std::string_view op, const Elements& elements, std::string_view kernel,
                         std::vector<TemplateArgument> template_arguments, const Operand& written,
                         std::initializer_list<Operand> read, std::int64_t block_m, std::int64_t block_n,
                         std::int64_t num_warps, const Target& target) {
  const ops::IndexingIteration iteration = make_iteration(elements, block_m, block_n);
  KernelLaunch launch;
  launch.kernel = fmt::format("kiln::ops::{}", kernel);
  launch.template_arguments = std::move(template_arguments);
  launch.template_arguments.emplace_back(block_m);
  launch.template_arguments.emplace_back(block_n);
  launch.geometry = {grid_of(op, elements.numel == 0 ? 0 : num_programs(iteration), target),
                     static_cast<std::int32_t>(num_warps), 0};
  common::KernelParameters parameters(launch);
  parameters.written(written.tensor, written.type);
  for (const Operand& operand : read) parameters.read(operand.tensor, operand.type);
  parameters.value(iteration);
  return launch;
}

std::int64_t warps_of(const Config& config) {
  const std::int64_t* num_warps = config.find("num_warps");
  return num_warps != nullptr ? *num_warps : 4;
}

ConfigSpace elements_space(const Target& target) {
  const common::ConfigExpression tile = common::ConfigExpression("BLOCK_M") * "BLOCK_N", warps("num_warps");
  if (!is_cuda(target))
    return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64}}, {"BLOCK_N", {64, 32, 16, 8, 4, 2, 1, 128}}},
            {tile <= 128, tile >= 16}};
  return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}},
           {"BLOCK_N", {512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 1024}},
           {"num_warps", {4, 2, 8, 1}}},
          {tile <= 2048, between(32 * warps, tile, 256 * warps)}};
}

/// Four elements a thread on the GPU, which with their indices are 8 KB or so a program.
Config elements_default(const Elements& elements, const Target& target) {
  const std::int64_t size = is_cuda(target) ? 512 : 64;
  const std::int64_t most_rows = is_cuda(target) ? 512 : 64;
  const std::int64_t block_n = common::block_over(elements.columns().extent, {.least = 32, .most = size});
  std::int64_t block_m = std::min({size / block_n, ceil_power_of_two(elements.rows().extent), most_rows});
  if (!is_cuda(target)) {
    while (block_m * block_n < 16) block_m *= 2;
    return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}};
  }
  std::int64_t num_warps = 4;
  while (num_warps > 1 && block_m * block_n < 32 * num_warps) num_warps /= 2;
  while (block_m * block_n < 32) block_m *= 2;
  return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"num_warps", num_warps}};
}

/// What a CPU's program goes through one by one.
ConfigSpace singly_space(const Target& target) {
  if (is_cuda(target)) return elements_space(target);
  const common::ConfigExpression block = common::ConfigExpression("BLOCK_M") * "BLOCK_N";
  return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}},
           {"BLOCK_N", {4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1}}},
          {between(kCpuProgramElements / 4, block, kCpuProgramElements * 4)}};
}

Config singly_default(const Elements& elements, const Target& target) {
  if (is_cuda(target)) return elements_default(elements, target);
  const std::int64_t block_n = std::min(ceil_power_of_two(elements.columns().extent), kCpuProgramElements);
  return {{"BLOCK_M", kCpuProgramElements / block_n}, {"BLOCK_N", block_n}};
}

/// One index for a row that is dense in out and x, and long enough. On the GPU its start is a multiple of 16 bytes
/// wherever the tensors' are.
bool has_rows(const IndexingCall& call, const Target& target) {
  const Elements& elements = call.elements;
  const IndexingDim columns = elements.columns();
  const std::int64_t itemsize = call.itemsize();
  if (columns.strides != std::array<std::int64_t, 3>{1, 0, 1}) return false;
  if (!is_cuda(target)) return columns.extent * itemsize >= kShortestCpuRowBytes;
  if (columns.extent * itemsize < kShortestCudaRowBytes) return false;
  const auto is_aligned = [itemsize](std::int64_t stride) { return stride * itemsize % 16 == 0; };
  return is_aligned(elements.stride) &&
         std::all_of(elements.dims.begin() + 1, elements.dims.end(),
                     [&](const IndexingDim& dim) { return is_aligned(dim.strides[0]) && is_aligned(dim.strides[2]); });
}

ConfigSpace rows_space(const Target& target) {
  if (!is_cuda(target))
    return {{{"ROWS", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}},
             {"BLOCK_BYTES", {8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8}}},
            {common::ConfigExpression("ROWS") * "BLOCK_BYTES" <= 2 * kCpuProgramBytes}};
  const common::ConfigExpression rows("ROWS"), block("BLOCK_BYTES"), warps("num_warps");
  return {{{"ROWS", {4, 8, 2, 1, 16}}, {"BLOCK_BYTES", {2048, 1024, 512, 256, 128, 4096}}, {"num_warps", {4, 2, 1, 8}}},
          {128 * warps <= block, rows * block <= 4096 * warps}};
}

Config rows_default(const IndexingCall& call, const Target& target) {
  const Elements& elements = call.elements;
  const std::int64_t itemsize = call.itemsize();
  const std::int64_t row_bytes = elements.columns().extent * itemsize;
  if (!is_cuda(target)) {
    const std::int64_t block_bytes =
        std::clamp(ceil_power_of_two(row_bytes), kShortestCpuRowBytes, kCpuProgramBytes / 2);
    return {{"ROWS", kCpuProgramBytes / block_bytes}, {"BLOCK_BYTES", block_bytes}};
  }
  const std::int64_t block_bytes =
      common::block_over(row_bytes, {.least = kShortestCudaRowBytes, .most = kMostRowBytes});
  std::int64_t rows = std::clamp<std::int64_t>(kProgramBytes / block_bytes, 4, 16);
  while (rows > 1 && elements.numel * itemsize / (rows * block_bytes) < kPlentyOfPrograms) rows /= 2;
  return {
      {"ROWS", rows}, {"BLOCK_BYTES", block_bytes}, {"num_warps", std::clamp<std::int64_t>(block_bytes / 512, 1, 4)}};
}

/// The strides of out and x, which gather_rows_kernel sees as bytes.
void count_in_bytes(Elements& elements, std::int64_t itemsize_bytes) {
  elements.stride *= itemsize_bytes;
  for (IndexingDim& dim : elements.dims) {
    dim.strides[0] *= itemsize_bytes;
    dim.strides[2] *= itemsize_bytes;
  }
}

constexpr const char* kBytes = "kiln::tl::uint8_t";

LaunchPlan rows_plan(const IndexingCall& call, const Config& config, const Target& target) {
  Elements elements = call.elements;
  count_in_bytes(elements, call.itemsize());
  KernelLaunch launch = make_launch(call.op, elements, "gather_rows_kernel", {call.moved(), call.index}, {0, kBytes},
                                    {{2, call.index}, {1, kBytes}}, config.at("ROWS"),
                                    config.at("BLOCK_BYTES") / call.itemsize(), warps_of(config), target);
  launch.vector_width = 16;  // of the bytes that rows are moved as
  return LaunchPlan{{std::move(launch)}, {}};
}

/// A launch of either kernel that takes an index for each element; `source` is the tensor that it reads beside it.
KernelLaunch elements_launch(const IndexingCall& call, std::string_view kernel, DType dtype, int source,
                             const Config& config, const Target& target) {
  KernelLaunch launch =
      make_launch(call.op, call.elements, kernel, {dtype, call.index}, {0, dtype}, {{2, call.index}, {source, dtype}},
                  config.at("BLOCK_M"), config.at("BLOCK_N"), warps_of(config), target);
  launch.vector_width = 1;  // no access is wide, and neighbouring threads shall touch neighbouring elements
  return launch;
}

std::vector<Variant> gathering_variants(const IndexingParser& parse) {
  const KernelSource source = embedded_source("ops/indexing/kernel.hpp");
  return {common::variant_of<IndexingCall>(parse, {.name = "rows",
                                                   .doc = "whole rows, dense in x and out, by one index each",
                                                   .source = source,
                                                   .kernel = "kiln::ops::gather_rows_kernel",
                                                   .serves = has_rows,
                                                   .space = rows_space,
                                                   .default_config = rows_default,
                                                   .plan = rows_plan}),
          common::variant_of<IndexingCall>(
              parse, {.name = "elements",
                      .doc = "any strides: an index for each element of 2-D tiles",
                      .source = source,
                      .kernel = "kiln::ops::gather_kernel",
                      .space = singly_space,
                      .default_config = [](const IndexingCall& call,
                                           const Target& target) { return singly_default(call.elements, target); },
                      .plan =
                          [](const IndexingCall& call, const Config& config, const Target& target) {
                            return LaunchPlan{{elements_launch(call, "gather_kernel", call.moved(), 1, config, target)},
                                              {}};
                          }})};
}

/// x to out, in tiles of its own: what suits the indexed elements need not suit them.
KernelLaunch copy_launch(const IndexingCall& call, const Target& target) {
  const Elements& elements = call.copied;
  const DType moved = call.moved();
  const IndexingDim columns = elements.columns();
  const bool is_dense = columns.strides[0] == 1 && columns.strides[1] == 1;
  if (elements.dims.empty() || (elements.dims.size() == 1 && is_dense)) {
    // Eight elements a thread at least, or two accesses.
    const std::int64_t width = 16 / itemsize_bytes(moved);
    const std::int64_t block_size = is_cuda(target) ? 128 * std::max<std::int64_t>(width, 8) : 128;
    KernelLaunch launch;
    launch.kernel = "kiln::ops::copy_dense_kernel";
    launch.template_arguments = {moved, block_size};
    launch.geometry.grid = grid_of(call.op, ceil_div(elements.numel, block_size), target);
    launch.vector_width = static_cast<std::int32_t>(width);
    common::KernelParameters(launch).written(0, moved).read(1, moved).value(static_cast<long long>(elements.numel));
    return launch;
  }
  const Config config = elements_default(elements, target);
  KernelLaunch launch = make_launch(call.op, elements, "copy_strided_kernel", {moved}, {0, moved}, {{1, moved}},
                                    config.at("BLOCK_M"), config.at("BLOCK_N"), warps_of(config), target);
  launch.vector_width = 1;
  return launch;
}

}  // namespace

std::vector<Variant> index_select_variants() {
  return gathering_variants(parser(
      "index_select",
      [](const OpCall& call, int dim) {
        return index_select_elements(call.outputs[0], call.inputs[0], call.inputs[1], dim);
      },
      false));
}

std::vector<Variant> gather_variants() {
  return gathering_variants(parser(
      "gather",
      [](const OpCall& call, int dim) { return gather_elements(call.outputs[0], call.inputs[0], call.inputs[1], dim); },
      false));
}

std::vector<Variant> scatter_add_variants() {
  const IndexingParser parse = parser(
      "scatter_add",
      [](const OpCall& call, int dim) {
        return scatter_elements(call.outputs[0], call.inputs[1], call.inputs[2], dim);
      },
      true);
  return {common::variant_of<IndexingCall>(
      parse, {.name = "atomic",
              .doc = "out becomes x, then an atomic addition for each element of src",
              .source = embedded_source("ops/indexing/kernel.hpp"),
              .kernel = "kiln::ops::scatter_add_kernel",
              .space = elements_space,
              .default_config = [](const IndexingCall& call,
                                   const Target& target) { return elements_default(call.elements, target); },
              .plan =
                  [](const IndexingCall& call, const Config& config, const Target& target) {
                    return LaunchPlan{{copy_launch(call, target),
                                       elements_launch(call, "scatter_add_kernel", call.dtype, 3, config, target)},
                                      {}};
                  }})};
}

}  // namespace kiln::indexing
