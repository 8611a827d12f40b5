#include "runtime/recorded_transfer.hpp"

#include <fmt/format.h>

#include <cstring>

namespace kiln {
namespace {

std::size_t bytes_of(const TensorView& view) {
  return static_cast<std::size_t>(view.numel() * itemsize_bytes(view.dtype));
}

class RecordedCopy final : public RecordedCall {
 public:
  RecordedCopy(const TensorView& destination, const TensorView& source) : destination_(destination), source_(source) {}

  GraphCall describe() const override { return {"copy", "", {source_}, {destination_}}; }
  void run() const override {
    if (bytes_of(source_) > 0) std::memmove(destination_.data, source_.data, bytes_of(source_));
  }
  std::string difference(const RecordedCall& other) const override {
    const auto* copy = dynamic_cast<const RecordedCopy*>(&other);
    if (copy != nullptr && copy->destination_.device == destination_.device && copy->source_.device == source_.device)
      return "";
    return fmt::format("{} where it was {}", to_string(other.describe()), to_string(describe()));
  }

 private:
  TensorView destination_, source_;
};

class RecordedFill final : public RecordedCall {
 public:
  RecordedFill(const TensorView& destination, std::uint8_t value) : destination_(destination), value_(value) {}

  GraphCall describe() const override { return {"memset_bytes", fmt::format("value={}", value_), {}, {destination_}}; }
  void run() const override {
    if (bytes_of(destination_) > 0) std::memset(destination_.data, value_, bytes_of(destination_));
  }
  std::string difference(const RecordedCall& other) const override {
    if (dynamic_cast<const RecordedFill*>(&other) != nullptr) return "";
    return fmt::format("{} where it was {}", to_string(other.describe()), to_string(describe()));
  }

 private:
  TensorView destination_;
  std::uint8_t value_;
};

}  // namespace

std::shared_ptr<const RecordedCall> recorded_copy(const TensorView& destination, const TensorView& source) {
  return std::make_shared<RecordedCopy>(destination, source);
}

std::shared_ptr<const RecordedCall> recorded_fill(const TensorView& destination, std::uint8_t value) {
  return std::make_shared<RecordedFill>(destination, value);
}

}  // namespace kiln
