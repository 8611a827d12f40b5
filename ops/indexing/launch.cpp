#include "ops/indexing/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "ops/dims.hpp"
#include "ops/grid.hpp"
#include "ops/indexing/iteration_plan.hpp"

namespace kiln::indexing {
namespace {

/// Rows shorter than this go element by element: four bytes a lane of a warp, a short vector on the CPU.
constexpr std::int64_t kShortestCudaRowBytes = 128, kShortestCpuRowBytes = 16;
/// Of one row, in one program: four warps with 16 bytes a thread.
constexpr std::int64_t kMostRowBytes = 2048;
/// What a program should read, so that launching it is not the limit and enough reads are in flight.
constexpr std::int64_t kProgramBytes = 4096;
/// Programs that fill a large GPU; with fewer rows than that, more of them at a time would leave it idle.
constexpr std::int64_t kPlentyOfPrograms = 1024;

using MakeElements = std::function<Elements(const OpCall&)>;

int dim_of(const OpCall& call) {
  return axis_of("", "dim", *call.attributes.find("dim"), call.inputs[0].ndim());
}

/// Moving an element takes no more than its bits.
DType bits_of(DType dtype) {
  return unsigned_dtype(itemsize_bytes(dtype));
}

/// The widest power of two from `least` to `most` whose blocks are at least nine tenths full over `extent`, else the
/// one whose blocks are fullest. `least` gives way to a shorter extent.
std::int64_t block_of(std::int64_t extent, std::int64_t least, std::int64_t most) {
  const auto filling = [extent](std::int64_t block) {
    const std::int64_t covered = (extent + block - 1) / block * block;
    return static_cast<double>(extent) / static_cast<double>(covered);
  };
  std::int64_t best = std::min(ceil_power_of_two(extent), most);
  for (std::int64_t block = best; block >= least && filling(best) < 0.9; block /= 2)
    if (filling(block) > filling(best)) best = block;
  return best;
}

/// Checks the GPU's grid limit.
std::array<std::int64_t, 3> grid_of(const OpCall& call, std::int64_t programs, const Target& target) {
  if (is_cuda(target) && programs > std::numeric_limits<std::int32_t>::max())
    throw_value_error(
        fmt::format("output 'out' ({}): this config takes {} programs, but a GPU's grid holds {}; choose larger blocks",
                    describe(call.outputs[0]), programs, std::numeric_limits<std::int32_t>::max()));
  return {programs, 1, 1};
}

KernelLaunch make_launch(const OpCall& call, const Elements& elements, std::string kernel,
                         std::vector<TemplateArgument> template_arguments, std::initializer_list<int> tensors,
                         std::int64_t block_m, std::int64_t block_n, std::int64_t num_warps, const Target& target) {
  const ops::IndexingIteration iteration = make_iteration(elements, block_m, block_n);
  KernelLaunch launch;
  launch.kernel = "kiln::ops::" + std::move(kernel);
  launch.template_arguments = std::move(template_arguments);
  launch.template_arguments.emplace_back(block_m);
  launch.template_arguments.emplace_back(block_n);
  launch.geometry = {grid_of(call, elements.numel == 0 ? 0 : num_programs(iteration), target),
                     static_cast<std::int32_t>(num_warps), 0};
  for (const int tensor : tensors) launch.arguments.add_tensor(tensor);
  launch.arguments.add_value(iteration);
  return launch;
}

std::int64_t warps_of(const Config& config) {
  const std::int64_t* num_warps = config.find("num_warps");
  return num_warps != nullptr ? *num_warps : 4;
}

Constraint at_most(std::int64_t elements) {
  return {fmt::format("BLOCK_M * BLOCK_N <= {}", elements),
          [elements](const Config& config) { return config.at("BLOCK_M") * config.at("BLOCK_N") <= elements; }};
}

ConfigSpace elements_space(const Target& target) {
  if (!is_cuda(target))
    return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64}}, {"BLOCK_N", {64, 32, 16, 8, 4, 2, 1, 128}}},
            {at_most(128), {"BLOCK_M * BLOCK_N >= 16", [](const Config& config) {
                              return config.at("BLOCK_M") * config.at("BLOCK_N") >= 16;
                            }}}};
  return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}},
           {"BLOCK_N", {512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 1024}},
           {"num_warps", {4, 2, 8, 1}}},
          {at_most(2048), {"32 * num_warps <= BLOCK_M * BLOCK_N <= 256 * num_warps", [](const Config& config) {
                             const std::int64_t elements = config.at("BLOCK_M") * config.at("BLOCK_N");
                             const std::int64_t threads = 32 * config.at("num_warps");
                             return elements >= threads && elements <= 8 * threads;
                           }}}};
}

/// Four elements a thread on the GPU, which with their indices are 8 KB or so a program.
Config elements_default(const Elements& elements, const Target& target) {
  const std::int64_t size = is_cuda(target) ? 512 : 64;
  const std::int64_t most_rows = is_cuda(target) ? 512 : 64;
  const std::int64_t block_n = block_of(elements.columns().extent, 32, size);
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

/// One index for a row that is dense in out and x, and long enough. On the GPU its start is a multiple of 16 bytes
/// wherever the tensors' are.
bool has_rows(const OpCall& call, const Elements& elements, const Target& target) {
  const IndexingDim columns = elements.columns();
  const std::int64_t itemsize = itemsize_bytes(call.outputs[0].dtype);
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
    return {{{"ROWS", {8, 1, 2, 4, 16, 32, 64}}, {"BLOCK_BYTES", {1024, 512, 256, 128, 64, 32, 16}}}, {}};
  return {{{"ROWS", {4, 8, 2, 1, 16}}, {"BLOCK_BYTES", {2048, 1024, 512, 256, 128, 4096}}, {"num_warps", {4, 2, 1, 8}}},
          {{"128 * num_warps <= BLOCK_BYTES",
            [](const Config& config) { return config.at("BLOCK_BYTES") >= 128 * config.at("num_warps"); }},
           {"ROWS * BLOCK_BYTES <= 4096 * num_warps", [](const Config& config) {
              return config.at("ROWS") * config.at("BLOCK_BYTES") <= 4096 * config.at("num_warps");
            }}}};
}

Config rows_default(const OpCall& call, const Elements& elements, const Target& target) {
  const std::int64_t itemsize = itemsize_bytes(call.outputs[0].dtype);
  const std::int64_t row_bytes = elements.columns().extent * itemsize;
  if (!is_cuda(target)) {
    const std::int64_t block_bytes = block_of(row_bytes, kShortestCpuRowBytes, 1024);
    return {{"ROWS", std::min<std::int64_t>(2 * kProgramBytes / block_bytes, 64)}, {"BLOCK_BYTES", block_bytes}};
  }
  const std::int64_t block_bytes = block_of(row_bytes, kShortestCudaRowBytes, kMostRowBytes);
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

Variant rows_variant(const MakeElements& make_elements) {
  Variant variant;
  variant.name = "rows";
  variant.doc = "whole rows, dense in x and out, by one index each";
  variant.kernel = "kiln::ops::gather_rows_kernel";
  variant.serves = [make_elements](const OpCall& call, const Target& target) {
    return has_rows(call, make_elements(call), target);
  };
  variant.space = rows_space;
  variant.default_config = [make_elements](const OpCall& call, const Target& target) {
    return rows_default(call, make_elements(call), target);
  };
  variant.plan = [make_elements](const OpCall& call, const Config& config, const Target& target) {
    const DType moved = bits_of(call.outputs[0].dtype);
    Elements elements = make_elements(call);
    count_in_bytes(elements, itemsize_bytes(moved));
    KernelLaunch launch =
        make_launch(call, elements, "gather_rows_kernel", {moved, call.inputs[1].dtype}, {0, 2, 1}, config.at("ROWS"),
                    config.at("BLOCK_BYTES") / itemsize_bytes(moved), warps_of(config), target);
    launch.vector_width = 16;  // of the bytes that rows are moved as
    return LaunchPlan{{std::move(launch)}, {}};
  };
  return variant;
}

Variant elements_variant(const MakeElements& make_elements) {
  Variant variant;
  variant.name = "elements";
  variant.doc = "any strides: an index for each element of 2-D tiles";
  variant.kernel = "kiln::ops::gather_kernel";
  variant.serves = [](const OpCall&, const Target&) { return true; };
  variant.space = elements_space;
  variant.default_config = [make_elements](const OpCall& call, const Target& target) {
    return elements_default(make_elements(call), target);
  };
  variant.plan = [make_elements](const OpCall& call, const Config& config, const Target& target) {
    KernelLaunch launch =
        make_launch(call, make_elements(call), "gather_kernel", {bits_of(call.outputs[0].dtype), call.inputs[1].dtype},
                    {0, 2, 1}, config.at("BLOCK_M"), config.at("BLOCK_N"), warps_of(config), target);
    launch.vector_width = 1;  // no access is wide, and neighbouring threads shall touch neighbouring elements
    return LaunchPlan{{std::move(launch)}, {}};
  };
  return variant;
}

std::vector<Variant> gathering_variants(const MakeElements& make_elements) {
  std::vector<Variant> variants = {rows_variant(make_elements), elements_variant(make_elements)};
  for (Variant& variant : variants) variant.source = embedded_source("ops/indexing/kernel.hpp");
  return variants;
}

/// x to out, in tiles of its own: what suits the indexed elements need not suit them.
KernelLaunch copy_launch(const OpCall& call, const Target& target) {
  const Elements elements = copy_elements(call.outputs[0], call.inputs[0]);
  const DType moved = bits_of(call.outputs[0].dtype);
  const IndexingDim columns = elements.columns();
  const bool is_dense = columns.strides[0] == 1 && columns.strides[1] == 1;
  if (elements.dims.empty() || (elements.dims.size() == 1 && is_dense)) {
    // Eight elements a thread at least, or two accesses.
    const std::int64_t width = 16 / itemsize_bytes(moved);
    const std::int64_t block_size = is_cuda(target) ? 128 * std::max<std::int64_t>(width, 8) : 128;
    KernelLaunch launch;
    launch.kernel = "kiln::ops::copy_dense_kernel";
    launch.template_arguments = {moved, block_size};
    launch.geometry.grid = grid_of(call, (elements.numel + block_size - 1) / block_size, target);
    launch.vector_width = static_cast<std::int32_t>(width);
    launch.arguments.add_tensor(0);
    launch.arguments.add_tensor(1);
    launch.arguments.add_value(static_cast<long long>(elements.numel));
    return launch;
  }
  const Config config = elements_default(elements, target);
  KernelLaunch launch = make_launch(call, elements, "copy_strided_kernel", {moved}, {0, 1}, config.at("BLOCK_M"),
                                    config.at("BLOCK_N"), warps_of(config), target);
  launch.vector_width = 1;
  return launch;
}

}  // namespace

std::vector<Variant> index_select_variants() {
  return gathering_variants([](const OpCall& call) {
    return index_select_elements(call.outputs[0], call.inputs[0], call.inputs[1], dim_of(call));
  });
}

std::vector<Variant> gather_variants() {
  return gathering_variants([](const OpCall& call) {
    return gather_elements(call.outputs[0], call.inputs[0], call.inputs[1], dim_of(call));
  });
}

std::vector<Variant> scatter_add_variants() {
  const auto elements_of = [](const OpCall& call) {
    return scatter_elements(call.outputs[0], call.inputs[1], call.inputs[2], dim_of(call));
  };
  Variant variant;
  variant.name = "atomic";
  variant.doc = "out becomes x, then an atomic addition for each element of src";
  variant.source = embedded_source("ops/indexing/kernel.hpp");
  variant.kernel = "kiln::ops::scatter_add_kernel";
  variant.serves = [](const OpCall&, const Target&) { return true; };
  variant.space = elements_space;
  variant.default_config = [elements_of](const OpCall& call, const Target& target) {
    return elements_default(elements_of(call), target);
  };
  variant.plan = [elements_of](const OpCall& call, const Config& config, const Target& target) {
    KernelLaunch scatter =
        make_launch(call, elements_of(call), "scatter_add_kernel", {call.outputs[0].dtype, call.inputs[1].dtype},
                    {0, 2, 3}, config.at("BLOCK_M"), config.at("BLOCK_N"), warps_of(config), target);
    scatter.vector_width = 1;
    return LaunchPlan{{copy_launch(call, target), std::move(scatter)}, {}};
  };
  return {std::move(variant)};
}

}  // namespace kiln::indexing
