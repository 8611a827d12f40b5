#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/estimated_config.hpp"
#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// Operands that the portable kernel has one config space for: their size and the instructions that multiply them
/// decide which tiles fit.
enum class OperandClass : std::uint8_t { f64, f32, tf32, half, fp8, i8 };
inline constexpr OperandClass kOperandClasses[] = {OperandClass::f64,  OperandClass::f32, OperandClass::tf32,
                                                   OperandClass::half, OperandClass::fp8, OperandClass::i8};

/// The class of a call on `target`: tf32 is one on the GPU alone.
OperandClass operand_class(const MatmulCall& call, const Target& target);
std::int64_t operand_bytes(OperandClass operands);
/// "tile_f64".
std::string variant_name(OperandClass operands);

/// BLOCK_M, BLOCK_N, BLOCK_K, SPLIT_K, and on the GPU NUM_STAGES, GROUP_M and num_warps; every config of it can launch.
ConfigSpace tile_space(OperandClass operands, const Target& target);
/// The config of the least estimated time, which is known on GPUs alone.
EstimatedConfig default_tiling(const MatmulCall& call, const Target& target);

/// Dynamic shared memory of the kernel on the GPU.
std::int64_t shared_bytes(OperandClass operands, const Config& config);

/// How k is cut.
struct KSplit {
  std::int64_t num_splits = 1;
  std::int64_t k_per_split = 0;  ///< a multiple of BLOCK_K, or all of k
};
KSplit split_k(const MatmulCall& call, std::int64_t block_k, std::int64_t most_splits);
/// For a config's BLOCK_K and SPLIT_K.
KSplit split_k(const MatmulCall& call, const Config& config);

}  // namespace kiln::matmul
