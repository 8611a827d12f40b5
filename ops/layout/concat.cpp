#include "ops/layout/concat.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "ops/common/call_parser.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/layout/arrange.hpp"
#include "ops/layout/copy_config.hpp"

namespace kiln::layout {
namespace {

static_assert(ops::kMostJoinedPieces == kMaxTensors - 1, "an output and as many inputs as a call may have");

/// Up to so many bytes a call is its launches: each takes about 2.5 us on an H200, where the memory moves 10 MB.
/// Beyond, pieces that a kernel of their own suits are better with it.
constexpr double kFewBytes = 8e6;

/// One input that has elements.
struct Piece {
  int input = 0;
  Copy copy;
};

struct ConcatCall {
  DType dtype = DType::f32;
  double bytes = 0;
  std::vector<Piece> pieces;
};

ConcatCall parse(const OpCall& call) {
  const Concatenation parts = concatenated(call.inputs, call.attributes);
  const TensorView& out = call.outputs[0];
  ConcatCall result{out.dtype, static_cast<double>(out.numel()) * static_cast<double>(itemsize_bytes(out.dtype)), {}};
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].numel() == 0) continue;
    const Slice slice = slice_of(out, call.inputs[i], parts, i);
    result.pieces.push_back({static_cast<int>(i), make_copy(slice.view, call.inputs[i], slice.offset)});
  }
  return result;
}

/// The copy as rows that are dense on both sides; none where it is no such matrix.
std::optional<ops::JoinedPiece> dense_rows(const Copy& copy) {
  const auto& dims = copy.walk.dims;
  ops::JoinedPiece piece{};
  piece.rows = piece.columns = 1;
  piece.offsets[ops::kCopyOut] = copy.out_offset;
  piece.offsets[ops::kCopyIn] = copy.in_offset;
  std::size_t outer = 0;
  if (!dims.empty() && dims[0].strides[ops::kCopyOut] == 1 && dims[0].strides[ops::kCopyIn] == 1)
    piece.columns = dims[outer++].extent;
  if (dims.size() > outer + 1) return std::nullopt;
  if (dims.size() == outer) return piece;
  piece.rows = dims[outer].extent;
  for (const ops::CopyOperand operand : {ops::kCopyOut, ops::kCopyIn})
    piece.row_strides[operand] = dims[outer].strides[operand];
  return piece;
}

/// Elements that every access of every piece can have at once.
std::int64_t common_width(const ConcatCall& call) {
  std::int64_t width = 16 / itemsize_bytes(call.dtype);
  for (const Piece& piece : call.pieces) {
    const ops::JoinedPiece rows = *dense_rows(piece.copy);
    for (const ops::CopyOperand operand : {ops::kCopyOut, ops::kCopyIn})
      while (rows.offsets[operand] % width != 0 || rows.row_strides[operand] % width != 0) width /= 2;
  }
  return width;
}

Config joined_default(const ConcatCall& call, const Target&) {
  const Piece& largest =
      *std::ranges::max_element(call.pieces, {}, [](const Piece& piece) { return piece.copy.walk.numel; });
  const ops::JoinedPiece rows = *dense_rows(largest.copy);
  return dense_rows_config(itemsize_bytes(call.dtype), rows.rows, rows.columns, common_width(call) > 1);
}

std::int64_t num_programs(const ops::JoinedPiece& piece, const Config& config) {
  return ceil_div(piece.rows, config.at("BLOCK_M")) * ceil_div(piece.columns, config.at("BLOCK_N"));
}

/// Whether one launch has all pieces. All have one shape of tile: not where some would fill little of it.
bool joins(const ConcatCall& call, const Target& target) {
  constexpr std::int64_t kMostPrograms = 4, kAlwaysFewPrograms = 264;  // of those that are full
  if (!is_cuda(target) || call.pieces.empty()) return false;
  for (const Piece& piece : call.pieces) {
    const CopyKind kind = kind_of(piece.copy, target.type);
    if (!dense_rows(piece.copy) ||
        (call.bytes > kFewBytes && kind != CopyKind::contiguous && kind != CopyKind::strided))
      return false;
  }
  const Config config = joined_default(call, target);
  std::int64_t programs = 0, full = 0;
  for (const Piece& piece : call.pieces) {
    programs += num_programs(*dense_rows(piece.copy), config);
    full += ceil_div(piece.copy.walk.numel, config.at("BLOCK_M") * config.at("BLOCK_N"));
  }
  return programs <= std::max(kMostPrograms * full, kAlwaysFewPrograms);
}

LaunchPlan joined_plan(const ConcatCall& call, const Config& config, const Target& target) {
  const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N");
  const DType moved = unsigned_dtype(itemsize_bytes(call.dtype));
  ops::JoinedIteration iteration{};
  std::int64_t programs = 0;
  for (std::size_t i = 0; i < call.pieces.size(); ++i) {
    ops::JoinedPiece& piece = iteration.pieces[i] = *dense_rows(call.pieces[i].copy);
    piece.first_program = programs;
    piece.column_blocks = ceil_div(piece.columns, block_n);
    programs += num_programs(piece, config);
  }
  check_grid("concat", programs, target);
  KernelLaunch launch;
  launch.template_arguments = {moved, block_m, block_n};
  common::KernelParameters parameters(launch);
  parameters.written(0, moved).value(iteration);
  for (const Piece& piece : call.pieces) {
    launch.template_arguments.emplace_back(moved);
    parameters.read(1 + piece.input, moved);
  }
  launch.geometry.grid = {programs, 1, 1};
  launch.geometry.num_warps = static_cast<std::int32_t>(config.at("num_warps"));
  launch.vector_width = static_cast<std::int32_t>(common_width(call));
  return {{std::move(launch)}, {}};
}

LaunchPlan pieces_plan(const ConcatCall& call, const Config&, const Target& target) {
  LaunchPlan plan;
  for (const Piece& piece : call.pieces) {
    const CopyKind kind = kind_of(piece.copy, target.type);
    plan.launches.push_back(make_launch(kind, "concat", piece.copy, default_config(kind, piece.copy, target), target,
                                        {.tensor = 0}, 1 + piece.input));
  }
  return plan;
}

}  // namespace

std::vector<Variant> concat_variants(const KernelSource& source) {
  const common::CallParser<ConcatCall> parser(parse);
  return {common::variant_of<ConcatCall>(
              parser, {.name = "joined",
                       .doc = "inputs whose parts of the output are dense rows, in one launch",
                       .source = source,
                       .kernel = "kiln::ops::copy_joined_kernel",
                       .serves = joins,
                       .space = [](const Target& target) { return config_space(CopyKind::strided, target); },
                       .default_config = joined_default,
                       .plan = joined_plan}),
          common::variant_of<ConcatCall>(
              parser, {.name = "pieces",
                       .doc = "a copy of each input into its part of the output, by the kernel and config that suit it",
                       .source = source,
                       .kernel = kernel_name(CopyKind::strided),
                       .space = [](const Target&) { return ConfigSpace(); },
                       .default_config = [](const ConcatCall&, const Target&) { return Config(); },
                       .plan = pieces_plan})};
}

}  // namespace kiln::layout
