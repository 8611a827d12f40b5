#include "cli/standard_streams.hpp"

#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "core/terminal_text.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

std::atomic<bool> messages_are_json = false;

std::string dump(const Json& json, int indent) {
  // In ASCII, so that nothing in it is for the terminal. Text that is no UTF-8 has no place in JSON.
  return json.dump(indent, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + '\n';
}

void write(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

void print_message(const char* kind, const char* prefix, std::string_view message) {
  if (messages_are_json)
    write(stderr, dump(Json{{kind, message}}, -1));
  else
    write(stderr, prefix + terminal_text(message) + '\n');
}

}  // namespace

void print_text(std::string_view text) {
  write(stdout, terminal_text(text));
}

void print_json(const Json& json) {
  write(stdout, dump(json, 2));
}

void print_document(std::string_view text) {
  write(stdout, text);
}

void print_messages_as_json(bool as_json) {
  messages_are_json = as_json;
}

void print_error(std::string_view message) {
  print_message("error", "kiln: error: ", message);
}

void print_warning(std::string_view message) {
  print_message("warning", "kiln: warning: ", message);
}

void print_note(std::string_view message) {
  print_message("note", "kiln: ", message);
}

}  // namespace kiln::cli
