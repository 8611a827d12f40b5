#include "core/artifact.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <span>
#include <string_view>

#include "core/errors.hpp"

namespace kiln {
namespace {

// Changes with the layout below. Readers refuse other versions; a cache treats the refusal as a miss and builds again.
constexpr std::uint8_t kFormatVersion = 6;

class Writer {
 public:
  void byte(std::uint8_t value) { bytes_.push_back(std::byte{value}); }
  void number(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) byte(static_cast<std::uint8_t>((value >> shift) & 0xffu));
  }
  void block(std::span<const std::byte> block) {
    number(block.size());
    bytes_.insert(bytes_.end(), block.begin(), block.end());
  }
  void text(std::string_view text) { block(std::as_bytes(std::span(text.data(), text.size()))); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  std::uint8_t byte() { return static_cast<std::uint8_t>(take(1)[0]); }
  std::uint64_t number() {
    const std::span<const std::byte> bytes = take(8);
    std::uint64_t value = 0;
    for (std::size_t i = 8; i-- > 0;) value = (value << 8) | static_cast<std::uint8_t>(bytes[i]);
    return value;
  }
  std::span<const std::byte> block() { return take(number()); }
  std::string text() {
    const std::span<const std::byte> bytes = block();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  /// A byte that stands for one of the enumerators up to `last`.
  template <typename Enum>
  Enum enumerator(Enum last, const char* what) {
    const std::uint8_t value = byte();
    if (value > static_cast<std::uint8_t>(last))
      throw InternalError(fmt::format("artifact has the unknown {} {}", what, value));
    return static_cast<Enum>(value);
  }
  bool boolean(const char* what) {
    const std::uint8_t value = byte();
    if (value > 1) throw InternalError(fmt::format("artifact has {} as its {}", value, what));
    return value == 1;
  }
  std::int32_t small_number(const char* what) {
    const std::uint64_t value = number();
    if (value > std::numeric_limits<std::int32_t>::max())
      throw InternalError(fmt::format("artifact has {} as its {}", value, what));
    return static_cast<std::int32_t>(value);
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > rest_.size())
      throw InternalError(
          fmt::format("artifact ends too soon: {} more bytes were expected, {} are left", count, rest_.size()));
    const std::span<const std::byte> taken = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest_;
};

}  // namespace

std::vector<std::byte> Artifact::serialize() const {
  Writer writer;
  writer.byte(kFormatVersion);
  writer.byte(static_cast<std::uint8_t>(kind));
  writer.byte(static_cast<std::uint8_t>(target.type));
  writer.number(static_cast<std::uint64_t>(compile_time_us));
  writer.text(target.arch);
  writer.text(target.features);
  writer.byte(takes_dynamic_shared ? 1 : 0);
  writer.number(static_cast<std::uint64_t>(dynamic_shared_bytes));
  writer.number(box_loads.size());
  for (const auto& [form, line_bytes, follows_stores] : box_loads) {
    writer.text(form.table);
    for (const std::int32_t number : {form.lines, form.elements, form.element_bytes})
      writer.number(static_cast<std::uint64_t>(number));
    writer.byte(form.rounds_to_tf32 ? 1 : 0);
    writer.text(line_bytes.text());
    writer.byte(follows_stores ? 1 : 0);
  }
  writer.text(entry);
  writer.text(name);
  writer.block(code);
  return writer.take();
}

Artifact Artifact::deserialize(const std::vector<std::byte>& bytes) {
  Reader reader(bytes);
  const std::uint8_t version = reader.byte();
  if (version != kFormatVersion)
    throw InternalError(fmt::format("artifact has format version {}, this library reads {}", version, kFormatVersion));
  Artifact artifact;
  artifact.kind = reader.enumerator(ArtifactKind::object, "kind");
  artifact.target.type = reader.enumerator(DeviceType::cuda, "device type");
  artifact.compile_time_us = static_cast<std::int64_t>(reader.number());
  artifact.target.arch = reader.text();
  artifact.target.features = reader.text();
  artifact.takes_dynamic_shared = reader.boolean("answer to whether it takes dynamic shared memory");
  artifact.dynamic_shared_bytes = reader.small_number("bytes of dynamic shared memory");
  for (std::uint64_t left = reader.number(); left > 0; --left) {
    BoxLoad& load = artifact.box_loads.emplace_back();
    load.form.table = reader.text();
    load.form.lines = reader.small_number("lines of a box");
    load.form.elements = reader.small_number("elements of a box's line");
    load.form.element_bytes = reader.small_number("bytes of a box's element");
    load.form.rounds_to_tf32 = reader.boolean("answer to whether a box rounds");
    load.line_bytes = ParameterExpression(reader.text());
    load.follows_stores = reader.boolean("answer to whether a box follows stores");
  }
  artifact.entry = reader.text();
  artifact.name = reader.text();
  const std::span<const std::byte> code = reader.block();
  artifact.code.assign(code.begin(), code.end());
  if (!reader.at_end()) throw InternalError("artifact has bytes after its end");
  return artifact;
}

}  // namespace kiln
