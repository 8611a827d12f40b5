#pragma once

#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/transpose_strips.hpp"

namespace kiln::tl {

/// The tile goes through shared memory twice: row by row as its threads hold it, so that every thread can take strips,
/// and from there in chunks. All four passes are wide and free of bank conflicts. Writing elements straight to their
/// places was the alternative: for 1- and 2-byte types single bytes, 4 to 16 times as many accesses.
template <Number T, int kM, int kN, typename L>
KILN_DEVICE Tile<T, Shape<kN, kM>> trans_tile(const Tile<T, Shape<kM, kN>, L>& x) {
  using To = Blocked<Shape<kN, kM>>;
  using Places = TransposePlaces<sizeof(T), kM, kN>;
  constexpr int kBytes = kM * kN * static_cast<int>(sizeof(T));
  static_assert(kBytes <= 32 * 1024,
                "trans: a tile of more than 32 KiB does not fit in shared memory; use a smaller block");
  unsigned char* const shared = shared_bytes<kBytes>();
  Tile<T, Shape<kN, kM>> result;
  sync_threads();  // an earlier tile may still be read
  constexpr int kRun =
      is_same<L, Blocked<Shape<kM, kN>>> ? smaller(Blocked<Shape<kM, kN>>::kVector, Places::kPerChunk) : 1;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; r += kRun) {
    if (L::owns(r)) {
      typename PacketOf<kRun * sizeof(T)>::type packet;
      memcpy(&packet, &x.registers[r], sizeof packet);
      *reinterpret_cast<decltype(packet)*>(shared + (L::row(r) * kN + L::column(r)) * static_cast<int>(sizeof(T))) =
          packet;
    }
  }
  sync_threads();
  if constexpr (Places::kPossible) {
    using Strips = TransposeStrips<T, kM, kN>;
    using Deal = typename Strips::Deal;
    typename Strips::Strip strips[Deal::kCount];
    const int group = Deal::first_outer(), word = Deal::first_inner();
    if (Deal::any()) KILN_UNROLL for (int i = 0; i < Deal::kCount; ++i) {
        KILN_UNROLL for (int k = 0; k < Places::kPerChunk; ++k) strips[i][k] =
            *reinterpret_cast<const typename Strips::Word*>(
                shared + ((group + Deal::outer_step(i)) * Places::kPerChunk + k) * kN * static_cast<int>(sizeof(T)) +
                (word + Deal::inner_step(i)) * Places::kWordBytes);
      }
    sync_threads();
    if (Deal::any())
      KILN_UNROLL for (int i = 0; i < Deal::kCount; ++i)
          Strips::put(shared, group + Deal::outer_step(i), word + Deal::inner_step(i), strips[i]);
    sync_threads();
    constexpr int kTaken = smaller(To::kVector, Places::kPerChunk);
    KILN_UNROLL for (int r = 0; r < To::kRegisters; r += kTaken) {
      const auto packet = *reinterpret_cast<const typename PacketOf<kTaken * sizeof(T)>::type*>(
          shared + Places::element_offset(To::row(r), To::column(r)));
      memcpy(&result.registers[r], &packet, sizeof packet);
    }
  } else {
    KILN_UNROLL for (int r = 0; r < To::kRegisters; ++r) result.registers[r] =
        reinterpret_cast<const T*>(shared)[To::column(r) * kN + To::row(r)];
  }
  return result;
}

}  // namespace kiln::tl
