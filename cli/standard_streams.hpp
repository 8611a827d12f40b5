#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace kiln::cli {

/// Everything that a command prints goes through here, so that no control byte of an argument, a file or a kernel
/// reaches the terminal (core/terminal_text.hpp), and so that messages have one form.

/// To standard output.
void print_text(std::string_view text);
void print_json(const nlohmann::ordered_json& json);
/// As it stands, for other programs to read.
void print_document(std::string_view text);

/// Whether messages are JSON from here on, as --json asks.
void print_messages_as_json(bool as_json);
/// To standard error: "kiln: error: MESSAGE", or as JSON an object on a line of its own, {"error": "MESSAGE"}.
void print_error(std::string_view message);
/// "kiln: warning: MESSAGE", or {"warning": "MESSAGE"}: the work goes on, or is done.
void print_warning(std::string_view message);
/// "kiln: MESSAGE", or {"note": "MESSAGE"}.
void print_note(std::string_view message);

}  // namespace kiln::cli
