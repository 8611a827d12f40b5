#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compiler/kernel_source.hpp"
#include "core/content_hash.hpp"
#include "core/dtype.hpp"
#include "core/target.hpp"

namespace kiln {

/// A C++ type named in a kernel's template arguments, for example a functor: "kiln::ops::Add". Letters, digits, '_',
/// ':', '<', '>', ',' and spaces only.
struct TypeName {
  std::string name;
};

/// Numbers and flags that go together, for a template parameter that is a struct of them (C++20's structural types).
/// Each field of it is to be given, in the order in which they are declared; a kernel whose struct has a field more, or
/// one less, does not compile.
struct StructValue {
  struct Field {
    std::string name;  ///< letters, digits and '_' only
    std::variant<std::int64_t, bool> value;
  };
  std::string type;  ///< qualified, of a TypeName's characters
  std::vector<Field> fields;
};

/// One typed template argument.
using TemplateArgument = std::variant<DType, std::int64_t, bool, TypeName, StructValue>;

/// As C++ spells it: "float", "1024", "true", "kiln::ops::Add", "kiln::ops::Tiling{.rows = 64, .split = false}".
/// InternalError for names with other characters and a StructValue without fields.
std::string spell(const TemplateArgument& argument);

/// What KILN_DEBUG says; false when it is unset. UsageError(value) when it is no boolean.
bool debug_by_default();

/// Everything that decides the bytes of a kernel instance, the compiler itself aside.
struct CompileRequest {
  std::string op;             ///< for messages
  std::string configuration;  ///< for messages: "BLOCK_SIZE=1024 num_warps=4"
  KernelSource source;
  std::string kernel;  ///< qualified template name: "kiln::ops::elementwise_kernel"
  std::vector<TemplateArgument> template_arguments;
  std::int32_t num_parameters = -1;  ///< that the launch passes; a kernel with another number does not compile; -1: any
  /// What the launch passes, parameter by parameter, as C++ spells it where no namespace is open ("const float*",
  /// "kiln::tl::int64_t"); a kernel that declares other types does not compile. Empty: unchecked.
  std::vector<std::string> parameter_types = {};
  std::int32_t num_warps = 4;   ///< threads of a program on the GPU: 32 * num_warps
  std::int32_t copy_warps = 0;  ///< beside them in a block, which copy for the program (tl::chained_pipeline): 0 or 4
  std::int32_t vector_width =
      0;  ///< elements a GPU thread accesses at once; 0: 16 bytes over the widest dtype among the template arguments
  bool line_info = false;           ///< keep source lines in the machine code, for profilers
  bool debug = debug_by_default();  ///< device_assert is active
  /// The kernel waits for the one before it on its stream by itself (tl::wait_for_previous), for launches with
  /// LaunchGeometry::overlaps_previous. Only where can_overlap_previous(target).
  bool overlaps_previous = false;
  Target target;
};

/// Whether kernels for `target` may start while the one before them still runs: on sm_90 or newer.
bool can_overlap_previous(const Target& target);
/// "kiln::ops::elementwise_kernel<kiln::ops::Add, float, 1024>".
std::string instance_name(const CompileRequest& request);
/// What the machine code of that instance begins with, as C++ names it: the instance itself, or where warps copy for
/// its program the kernel that has them (compiler/tl/cuda/copy_warps.hpp).
std::string entry_name(const CompileRequest& request);
/// `vector_width`, with 0 resolved as documented there.
std::int32_t resolved_vector_width(const CompileRequest& request);
/// Covers sources (transitively), template arguments, options, target and `compiler_identity`; not op, configuration or
/// any absolute path.
ContentHash content_key(const CompileRequest& request, std::string_view compiler_identity);

}  // namespace kiln
