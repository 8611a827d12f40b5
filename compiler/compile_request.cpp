#include "compiler/compile_request.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <limits>

#include "core/environment.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

/// Names go into source text as they stand, so nothing may pass that could end an argument list or open a statement.
std::string checked_name(const std::string& name, const char* what) {
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_:<>, ").find(c) != std::string_view::npos;
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_allowed))
    throw InternalError(std::string(what) + " '" + name +
                        "' may hold letters, digits, '_', ':', '<', '>', ',' and spaces only, and not be empty");
  return name;
}

std::string checked_field_name(const std::string& name, const std::string& type) {
  const auto is_allowed = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_allowed))
    throw InternalError("field name '" + name + "' of " + type +
                        " may hold letters, digits and '_' only, and not be empty");
  return name;
}

struct Speller {
  std::string operator()(DType dtype) const { return std::string(info(dtype).tl_name); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const TypeName& type) const { return checked_name(type.name, "type name"); }
  std::string operator()(std::int64_t value) const {
    // C++ has no literal for the smallest value: it would be the negation of one too large.
    if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807 - 1)";
    return std::to_string(value);
  }
  std::string operator()(const StructValue& value) const {
    const std::string type = checked_name(value.type, "type name");
    if (value.fields.empty()) throw InternalError("a value of " + type + " has no fields");
    std::string text = type + "{";
    for (const StructValue::Field& field : value.fields)
      text += (text.back() == '{' ? "." : ", .") + checked_field_name(field.name, type) + " = " +
              std::visit(*this, field.value);
    return text + "}";
  }
};

}  // namespace

bool debug_by_default() {
  return environment_bool("KILN_DEBUG").value_or(false);
}

std::string spell(const TemplateArgument& argument) {
  return std::visit(Speller{}, argument);
}

bool can_overlap_previous(const Target& target) {
  constexpr std::string_view kPrefix = "sm_";
  if (target.type != DeviceType::cuda || !target.arch.starts_with(kPrefix)) return false;
  int capability = 0;
  std::from_chars(target.arch.data() + kPrefix.size(), target.arch.data() + target.arch.size(), capability);
  return capability >= 90;
}

std::string instance_name(const CompileRequest& request) {
  std::string name = checked_name(request.kernel, "kernel name") + "<";
  for (std::size_t i = 0; i < request.template_arguments.size(); ++i)
    name += (i == 0 ? "" : ", ") + spell(request.template_arguments[i]);
  return name + ">";
}

std::string entry_name(const CompileRequest& request) {
  const std::string instance = instance_name(request);
  return request.copy_warps == 0 ? instance : "kiln::tl::entry_with_copy_warps<&" + instance + ">";
}

std::int32_t resolved_vector_width(const CompileRequest& request) {
  if (request.vector_width != 0) return request.vector_width;
  std::int64_t widest_bytes = 0;
  for (const TemplateArgument& argument : request.template_arguments)
    if (const DType* dtype = std::get_if<DType>(&argument))
      widest_bytes = std::max(widest_bytes, itemsize_bytes(*dtype));
  // A kernel with no dtype argument has fixed types of its own; four 32-bit elements are the likeliest.
  return static_cast<std::int32_t>(16 / (widest_bytes == 0 ? 4 : widest_bytes));
}

ContentHash content_key(const CompileRequest& request, std::string_view compiler_identity) {
  ContentHasher hasher;
  hasher.field("stub 3").field(compiler_identity);
  hasher.field(static_cast<std::int64_t>(request.target.type))
      .field(request.target.arch)
      .field(request.target.features);
  hasher.field(instance_name(request)).field(std::int64_t{request.num_parameters});
  for (const std::string& type : request.parameter_types) hasher.field("parameter type").field(type);
  hasher.field(static_cast<std::int64_t>(request.line_info)).field(static_cast<std::int64_t>(request.debug));
  if (request.target.type == DeviceType::cuda)
    hasher.field(std::int64_t{request.num_warps}).field(std::int64_t{resolved_vector_width(request)});
  if (request.copy_warps != 0) hasher.field("copy warps").field(std::int64_t{request.copy_warps});
  if (request.overlaps_previous) hasher.field("overlaps previous");  // nothing without: keys stay what they were
  for (const KernelSource& source : transitive_sources(request.source)) {
    // Where a user keeps a kernel must not matter, or caches could not move between machines.
    const std::filesystem::path path(source.path);
    hasher.field(path.is_absolute() ? path.filename().string() : source.path).field(source.text);
  }
  return hasher.digest();
}

}  // namespace kiln
