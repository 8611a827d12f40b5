#pragma once

#include <signal.h>

#include <array>

namespace kiln::cli {

/// While one lives, SIGINT (Ctrl-C), SIGTERM and SIGHUP ask the command for an end, so that it keeps what it has; the
/// second of a kind ends the process as usual. SIGHUP stays ignored where it is (nohup). One at a time.
class EndRequest {
 public:
  EndRequest();
  ~EndRequest();
  EndRequest(const EndRequest&) = delete;
  EndRequest& operator=(const EndRequest&) = delete;

  static bool is_made() noexcept;
  /// 128 + the signal, as a shell has it of a process that died of it. After a request.
  static int exit_status() noexcept;

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> former_{};
};

}  // namespace kiln::cli
