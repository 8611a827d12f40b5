// Whose turn comes next, for who compiles candidates ahead of it; search.cpp holds what becomes of the turns.
#include <fmt/format.h>

#include <algorithm>

#include "autotune/search.hpp"
#include "core/errors.hpp"

namespace kiln {

std::vector<std::size_t> Search::upcoming(std::size_t count) const {
  std::vector<std::size_t> next;
  const auto add = [&](std::size_t candidate) {
    if (next.size() < count && std::find(next.begin(), next.end(), candidate) == next.end()) next.push_back(candidate);
  };
  if (request_) add(request_->candidate);
  for (const Visit& visit : queue_)
    if (board_.is_live(visit.candidate)) add(visit.candidate);
  return next;
}

std::vector<std::size_t> Search::upcoming_and_likely(std::size_t count) const {
  std::vector<std::size_t> next = upcoming(count);
  if (next.size() == count || phase_ == Phase::playoff || wrapped_up_) return next;
  for (const std::size_t candidate : strategy_->prospects(board_, count - next.size()))
    if (std::find(next.begin(), next.end(), candidate) == next.end()) next.push_back(candidate);
  return next;
}

bool Search::begins_turn() const noexcept {
  return turn_is_open_ && block_.back().samples_us.empty() && block_.back().window_us.empty();
}

void Search::prefer(std::size_t candidate) {
  if (!begins_turn()) throw InternalError("a turn that has begun cannot be another's");
  if (candidate == request().candidate) return;
  const auto found =
      std::find_if(queue_.begin(), queue_.end(), [&](const Visit& visit) { return visit.candidate == candidate; });
  if (found == queue_.end()) throw InternalError(fmt::format("candidate {} is not upcoming", candidate));
  const Visit preferred = *found;
  *found = block_.back().visit;
  end_turn();
  queue_.push_front(preferred);
  advance();
}

}  // namespace kiln
