#include "registry/tuning/call_trace.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <sstream>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/environment.hpp"
#include "core/errors.hpp"
#include "core/file_lock.hpp"
#include "core/input_file.hpp"
#include "registry/plan/tuned_config.hpp"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

const char* non_finite_name(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json value_json(const AttributeValue& value) {
  return std::visit(
      [](const auto& held) -> Json {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<T, DType>)
          return Json{{"dtype", name(held)}};
        else if constexpr (std::is_same_v<T, double>)
          return std::isfinite(held) ? Json(held)
                                     : Json{{"number", non_finite_name(held)}};  // JSON has no such numbers
        else
          return held;
      },
      value);
}

/// JSON's own conversion would cut a number that does not fit, which for a floating-point one is undefined.
std::int64_t integer_of(const Json& json) {
  const bool is_huge = json.is_number_unsigned() && !std::in_range<std::int64_t>(json.get<std::uint64_t>());
  if (!json.is_number_integer() || is_huge) throw_value_error("expected an integer of 64 bits, not " + json.dump());
  return json.get<std::int64_t>();
}

std::vector<std::int64_t> integers_of(const Json& json) {
  std::vector<std::int64_t> integers;
  for (const Json& element : json) integers.push_back(integer_of(element));
  return integers;
}

/// What non_finite_name has made text of; the same in every locale.
double number_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw_value_error("'number' is '" + text + "'; expected inf, -inf or nan");
  return number;
}

AttributeValue parse_value(const Json& json) {
  if (json.is_null()) return std::monostate{};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return integer_value(json.get<std::uint64_t>());
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) return integers_of(json);
  if (json.contains("number")) return number_of(json.at("number").get<std::string>());
  return parse_dtype(json.at("dtype").get<std::string>());
}

std::vector<std::int64_t> list_of(const Dims& dims) {
  return {dims.begin(), dims.end()};
}

Dims dims_of(const Json& json) {
  Dims dims;
  for (const Json& extent : json) {
    if (dims.size() == kMaxRank) throw_value_error("more than " + std::to_string(kMaxRank) + " dimensions");
    dims.push_back(integer_of(extent));
  }
  return dims;
}

Json tensor_json(const std::optional<TensorView>& input, DeviceType device) {
  if (!input) return nullptr;
  const TensorView& view = *input;
  Json json = {{"dtype", name(view.dtype)}, {"shape", list_of(view.shape)}};
  if (!view.is_contiguous()) json["strides"] = list_of(view.strides);
  if (view.device.type != device) json["pinned"] = true;
  return json;
}

std::optional<TensorView> parse_tensor(const Json& json, DeviceType device) {
  if (json.is_null()) return std::nullopt;
  const bool is_pinned = json.value("pinned", false);
  TensorView view = dense_view(nullptr, parse_dtype(json.at("dtype").get<std::string>()), dims_of(json.at("shape")),
                               {is_pinned ? DeviceType::cpu : device, 0});
  if (json.contains("strides")) view.strides = dims_of(json.at("strides"));
  if (view.strides.size() != view.shape.size()) throw_value_error("there must be one stride for each dimension");
  return view;
}

struct Writer {
  std::mutex mutex;
  std::set<std::string> written;
};

Writer& writer() {
  static auto* const writer = new Writer;  // never destroyed: threads may still dispatch while the process exits
  return *writer;
}

/// 0, or why not. Half a line, which is what fits on a disk that is nearly full, would be glued to the next one, and is
/// taken back: who appends holds the file's lock, so that it is the end of the file.
int append_whole(const FileDescriptor& file, std::string_view line) {
  const bool is_alone = lock(file) == LockResult::locked;
  const off_t end = lseek(file.get(), 0, SEEK_END);
  const std::size_t size = line.size();
  int error = 0;
  while (!line.empty() && error == 0) {
    const ssize_t count = write(file.get(), line.data(), line.size());
    if (count > 0)
      line.remove_prefix(static_cast<std::size_t>(count));
    else if (count == 0 || errno != EINTR)
      error = count == 0 ? EIO : errno;
  }
  // Where that is refused too, the error is the same.
  if (error != 0 && line.size() < size && is_alone && end >= 0) static_cast<void>(ftruncate(file.get(), end) == 0);
  if (is_alone) unlock(file);
  return error;
}

/// UsageError(value): whoever set the variable wants the calls, and would find out that there are none when it is too
/// late.
void append_line(const std::string& path, const std::string& line) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (const int error = file ? append_whole(file, line) : errno)
    throw_value_error("environment variable KILN_TRACE is '" + path + "': expected a file that can be appended to (" +
                      std::strerror(error) + ")");
}

std::string trace_text(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{256} << 20;  // a million calls
  try {
    return read_input_file(path, kMostBytes);
  } catch (const SystemError& error) {
    throw_value_error(std::string("the trace ") + error.what());
  }
}

/// Those of a call's attributes that say more than the op's defaults.
Attributes chosen_attributes(const OpSpec& spec, const Attributes& complete) {
  Attributes chosen;
  for (const AttributeSpec& attribute : spec.attributes)
    if (const AttributeValue& value = *complete.find(attribute.name); attribute.required || value != attribute.fallback)
      chosen.set(attribute.name, value);
  return chosen;
}

}  // namespace

std::string format_call(const TracedCall& call) {
  Json inputs = Json::array(), attributes = Json::object();
  for (const auto& input : call.inputs) inputs.push_back(tensor_json(input, call.device));
  for (const auto& [name, value] : call.attributes.entries()) attributes[name] = value_json(value);
  return Json{{"op", call.op},
              {"device", call.device == DeviceType::cuda ? "cuda" : "cpu"},
              {"inputs", inputs},
              {"attributes", attributes}}
      .dump();
}

TracedCall parse_call(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    TracedCall call;
    call.op = json.at("op").get<std::string>();
    call.device = parse_device(json.at("device").get<std::string>()).type;
    for (const Json& input : json.at("inputs")) call.inputs.push_back(parse_tensor(input, call.device));
    for (const auto& [name, value] : json.at("attributes").items()) call.attributes.set(name, parse_value(value));
    return call;
  } catch (const Json::exception& error) {
    const std::string text = error.what();  // "[json.exception.parse_error.101] parse error at ..."
    const std::size_t code_end = text.find("] ");
    throw_value_error("no call of a trace: " + (code_end == std::string::npos ? text : text.substr(code_end + 2)));
  }
}

std::vector<TracedCall> read_trace(const std::string& path) {
  std::istringstream file(trace_text(path));
  std::vector<TracedCall> calls;
  std::set<std::string> seen;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || !seen.insert(line).second) continue;
    try {
      calls.push_back(parse_call(line));
    } catch (const UsageError& error) {
      throw_value_error("line " + std::to_string(number) + " of the trace '" + path + "': " + error.what());
    }
  }
  return calls;
}

void trace_call(const Call& made) {
  const auto path = environment("KILN_TRACE");
  if (!path.has_value()) return;
  TracedCall call{made.spec->name, made.device.type, {}, chosen_attributes(*made.spec, made.attributes)};
  for (std::size_t i = 0; i < made.inputs.size(); ++i)
    call.inputs.push_back(made.left_out[i] ? std::nullopt : std::optional(made.inputs[i]));
  TracedCall kind = call;  // a new seed is not another call to tune
  kind.attributes = deciding_attributes(*made.spec, call.attributes);
  Writer& trace = writer();
  const std::lock_guard lock(trace.mutex);
  const std::string text = format_call(kind);
  if (trace.written.contains(text)) return;
  append_line(*path, format_call(call) + "\n");
  trace.written.insert(text);
}

}  // namespace kiln
