#pragma once

#include <memory>
#include <utility>

namespace kiln::cuda {

/// Keeps what a graph's work names until its launches are done. `launched` is an event behind the last of them, which
/// goes too; null when there was none.
///
/// Not the driver's user objects, which are made for this: launches of graphs that hold some, by two threads on one
/// stream, fail with CUDA_ERROR_UNKNOWN now and then (driver 580).
void retire_holdings(std::shared_ptr<void> holdings, void* launched) noexcept;

/// Holdings of a graph that is not Kiln's, as the data of a user object, where nothing else tells of its end.
struct ForeignHoldings {
  explicit ForeignHoldings(std::shared_ptr<void> kept) : holdings(std::move(kept)) {}
  std::shared_ptr<void> holdings;
  ForeignHoldings* next = nullptr;
};
/// A user object's destructor: the driver calls it on a thread where none of its functions may be called, so somebody
/// else has to drop them.
void drop_later(void* foreign_holdings);

/// Drops retired holdings whose launches are done, and those of foreign graphs that are gone.
void drop_finished_holdings() noexcept;
/// Whether this thread is in a drop: holdings may name streams that are gone.
bool is_dropping_holdings() noexcept;

}  // namespace kiln::cuda
