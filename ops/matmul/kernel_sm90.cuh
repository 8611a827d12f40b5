#pragma once

#include "compiler/tl/cuda/sm90/fragment.hpp"
#include "compiler/tl/cuda/sm90/tensor_map.hpp"
#include "compiler/tl/cuda/sm90/warpgroup.hpp"
#include "compiler/tl/cuda/sm90/wgmma_half.hpp"
#include "compiler/tl/cuda/sm90/wgmma_k_major_loaded.hpp"
#include "compiler/tl/program.hpp"
#include "ops/matmul/iteration_sm90.hpp"
#include "ops/matmul/kernel_sm90_combine.cuh"
#include "ops/matmul/kernel_sm90_output.cuh"
#include "ops/matmul/kernel_sm90_tiling.hpp"
#include "ops/matmul/kernel_sm90_work.cuh"

// Matrix products by the copy engine and the warpgroup's tensor cores. One warpgroup asks for boxes of a and b, the
// others multiply them: they meet at a ring of stages in shared memory, each with a barrier for "full" and one for
// "empty". Blocks stay and take one tile after the other, so that the first boxes of the next tile come while the last
// one is stored. Tiles that are too few for all blocks may be shared: each cluster multiplies an equal part of their k
// and leaves its sums, as registers hold them, for kernel_sm90_combine.cuh.

namespace kiln::ops {

using tl::sm90::Barrier;
using tl::sm90::Major;

/// a of other than 16-bit types that lies along m, which products do not take so from shared memory, goes by way of
/// registers.
template <typename OutT, typename AddendT, typename AT, typename BT, typename EpilogueT, MatmulSm90Tiling TILING,
          MatmulSm90Layout LAYOUT>
struct MatmulSm90 {
  using Accumulator = tl::conditional_t<tl::is_same<AT, tl::int8_t>, tl::int32_t, float>;
  static constexpr bool kLoadsA = LAYOUT.a_is_mn && sizeof(AT) != 2;
  static constexpr Major kMajorA = LAYOUT.a_is_mn ? Major::mn : Major::k,
                         kMajorB = LAYOUT.b_is_mn ? Major::mn : Major::k;
  static constexpr int kRowBytes = MatmulSm90Places::kRowBytes;
  static constexpr int kBlockK = kRowBytes / static_cast<int>(sizeof(AT));
  static constexpr int kSteps = kRowBytes / 32;
  static constexpr int kPanelBytes = kBlockK * kRowBytes;
  /// Of b where it lies along n: few columns have rows of less than 128 bytes.
  static constexpr int kRowBytesOfB = LAYOUT.b_is_mn ? matmul_sm90_panel(2, TILING.block_n) * 2 : kRowBytes;
  static constexpr int kStepBytesOfB = tl::sm90::kStepBytes<BT, kMajorB> * kRowBytesOfB / kRowBytes;
  static constexpr int kABytes = TILING.block_m * kRowBytes;
  static constexpr int kReleases = kLoadsA ? 4 : 1;  ///< of a stage, by each group
  static constexpr int kRegisters = TILING.block_n / 2;
  static constexpr int kMathThreads = TILING.math_groups * tl::sm90::kWarpgroupThreads;
  static constexpr int kWarps = 4 + 4 * TILING.math_groups;
  /// Names of barriers: 0 to start, 1 for all that multiply, then one for each group's stores and for its turn.
  static constexpr int kFirstTurn = 2 + TILING.math_groups;
  static_assert(!TILING.tile_each || TILING.math_groups == 2, "two groups take turns");
  static_assert(!LAYOUT.b_is_mn || sizeof(BT) == 2, "b of other types lies along k");
  static_assert(TILING.block_m % (64 * TILING.sharing_groups()) == 0 && TILING.block_n % 8 == 0,
                "a product has 64 rows and columns by eights");
  static_assert(!TILING.shares || TILING.split_k == 1, "k is cut in one way");
  static_assert(TILING.split_k == 1 ||
                    (TILING.cluster_m * TILING.cluster_n == 1 && TILING.row_blocks() == 1 && !TILING.tile_each),
                "parts of k: one row block a group");
  using Output =
      MatmulSm90Output<OutT, AddendT, Accumulator, EpilogueT, tl::conditional_t<kLoadsA, AT, void>, TILING, LAYOUT>;
  using Tile = MatmulSm90Tile;
  using Work = MatmulSm90Work;
  using Progress = MatmulSm90Progress;

  // A function, as what else depends on the tiling alone: NVRTC keeps constants of classes in the kernel's code, each
  // with a name that holds all of the class's arguments.
  KILN_DEVICE static constexpr MatmulSm90Places places() { return {TILING, LAYOUT.b_is_mn}; }

  tl::uint32_t shared;  ///< see shared_address
  const TensorMap& a_map;
  const TensorMap& b_map;
  const MatmulSm90Iteration& it;
  tl::uint32_t rank;
  uint4* parts;  ///< see leave_part
  Output output;

  KILN_DEVICE Barrier full(tl::uint32_t slot) const { return {shared + places().barriers() + slot * Barrier::kBytes}; }
  KILN_DEVICE Barrier empty(tl::uint32_t slot) const { return full(TILING.stages + slot); }
  KILN_DEVICE Barrier parts_arrived() const { return full(2 * TILING.stages); }

  KILN_DEVICE static int cluster() { return static_cast<int>(blockIdx.x) / TILING.cluster_blocks(); }
  KILN_DEVICE static int tile_step() { return static_cast<int>(gridDim.x) / TILING.cluster_blocks(); }
  KILN_DEVICE int first_tile() const {
    if (it.spreads == 0) return cluster();
    const int place = cluster() / kMatmulSm90Gpcs, gpc = cluster() % kMatmulSm90Gpcs;
    return gpc * (tile_step() / kMatmulSm90Gpcs) + min(gpc, tile_step() % kMatmulSm90Gpcs) + place;
  }
  KILN_DEVICE int team() const { return matmul_sm90_quotient(cluster(), it.team); }
  /// This block's place among the cluster's.
  KILN_DEVICE int down() const { return TILING.cluster_m == 1 ? 0 : static_cast<int>(rank) % TILING.cluster_m; }
  KILN_DEVICE int across() const { return TILING.cluster_n == 1 ? 0 : static_cast<int>(rank) / TILING.cluster_m; }
  KILN_DEVICE Tile tile_at(int index) const {
    return matmul_sm90_tile(it, index, {TILING.block_m, TILING.block_n, TILING.cluster_m, TILING.cluster_n}, down(),
                            across());
  }
  /// Where the i-th part of a tile's k begins, of those that the cluster's blocks have.
  KILN_DEVICE int part_of_k(int i) const {
    return static_cast<int>(static_cast<long long>(it.k_blocks) * i / TILING.split_k);
  }

  KILN_DEVICE Progress start() const {
    if constexpr (!TILING.shares) {
      return {first_tile(), 0, 0};
    } else {
      const int begin = team() * it.share;
      const int end = matmul_sm90_quotient(it.tiles - it.whole_tiles, it.team) * it.k_blocks;
      return {first_tile(), begin, min(begin + it.share, end)};
    }
  }
  KILN_DEVICE bool has_work(const Progress& progress) const {
    return progress.tile < it.whole_tiles || (TILING.shares && progress.at < progress.end);
  }
  /// What is next. Every cluster has something.
  KILN_DEVICE Work take_work(Progress& progress) const {
    if constexpr (TILING.shares)
      if (progress.tile >= it.whole_tiles) {
        const int tiles = matmul_sm90_quotient(progress.at, it.k_divisor);
        const int begin = progress.at - tiles * it.k_blocks;
        const int end = min(begin + progress.end - progress.at, it.k_blocks);
        const bool is_whole = begin == 0 && end == it.k_blocks;
        progress.at += end - begin;
        const int member = cluster() - team() * it.team.divisor;
        return {tile_at(it.whole_tiles + tiles * it.team.divisor + member), begin, end,
                is_whole ? Work::kWhole : MatmulSm90Segments::slot(it, team(), tiles, member)};
      }
    Work work{tile_at(progress.tile), 0, it.k_blocks, Work::kWhole};
    if constexpr (TILING.split_k > 1) {
      work.begin = part_of_k(static_cast<int>(rank));
      work.end = part_of_k(static_cast<int>(rank) + 1);
    }
    progress.tile += tile_step();
    return work;
  }

  /// Elements along m or n of a box.
  template <bool kMn, int kExtent, int kSharers>
  static constexpr int kBoxExtent =
      kMn ? matmul_sm90_panel(static_cast<int>(sizeof(AT)), kExtent) : matmul_sm90_box_rows(kExtent / kSharers);

  /// One operand's part of a stage, the first `boxes` of its boxes: `kSharers` blocks need the same, of which each asks
  /// for a share on behalf of all. Rows and columns that are not asked for are whatever lay there: their products are
  /// beyond the output's end.
  template <bool kMn, int kExtent, int kSharers>
  KILN_DEVICE void ask(tl::uint32_t to, const TensorMap& map, Barrier barrier, int k, int mn, int batch, int share,
                       tl::uint16_t sharers, int boxes) const {
    constexpr int kBox = kBoxExtent<kMn, kExtent, kSharers>;
    const auto copy = [&](tl::uint32_t box, int x, int y) {
      if constexpr (kSharers == 1)
        tl::sm90::copy_box(box, map, barrier, x, y, batch);
      else
        tl::sm90::copy_box_to_blocks(box, map, barrier, x, y, batch, sharers);
    };
    if constexpr (kMn) {
      constexpr int kPanels = (kExtent + kBox - 1) / kBox, kAtOnce = matmul_sm90_panel_sharers(kPanels, kSharers);
      constexpr int kRows = kBlockK / (kSharers / kAtOnce);
      static_assert(kRows % 8 == 0, "parts of panels are whole swizzle groups");
      const int row = share / kAtOnce * kRows;
      KILN_UNROLL for (int i = 0; i < kPanels / kAtOnce; ++i) {
        const int panel = i * kAtOnce + share % kAtOnce;
        if (panel < boxes)
          copy(to + (panel * kBlockK + row) * kBox * static_cast<int>(sizeof(AT)), mn + panel * kBox, k + row);
      }
    } else {
      constexpr int kBoxes = kExtent / kSharers / kBox;
      static_assert(kBox % 8 == 0, "boxes are whole swizzle groups");
      KILN_UNROLL for (int i = 0; i < kBoxes; ++i) {
        const int box = share * kBoxes + i;
        if (box < boxes) copy(to + box * kBox * kRowBytes, k, mn + box * kBox);
      }
    }
  }

  /// What one thread does for a, and another for b: issuing a box takes longer than small tiles need to multiply one.
  template <bool kIsA>
  KILN_DEVICE void produce(Work work, Progress progress) const {
    constexpr int kExtent = kIsA ? TILING.block_m : TILING.block_n,
                  kSharers = kIsA ? TILING.cluster_n : TILING.cluster_m;
    constexpr int kStep = kIsA ? TILING.cluster_m : 1, kStart = kIsA ? 0 : TILING.cluster_m;
    const int share = kIsA ? across() : down();
    tl::uint16_t sharers = 0;
    KILN_UNROLL for (int i = 0; i < kSharers; ++i) sharers |= 1 << (kIsA ? down() + i * kStep : across() * kStart + i);
    tl::sm90::RingPosition<TILING.stages> at;
    constexpr bool kMn = kIsA ? LAYOUT.a_is_mn : LAYOUT.b_is_mn;
    constexpr int kBox = kBoxExtent<kMn, kExtent, kSharers>, kBoxBytes = kBox * kRowBytes;
    constexpr int kBoxes = (kIsA ? kABytes : places().b_bytes()) / kBoxBytes;
    static_assert(kBoxes * kBoxBytes == (kIsA ? kABytes : places().b_bytes()), "boxes are all of a stage");
    for (;;) {
      const int first = kIsA ? work.tile.row : work.tile.column;
      const int boxes = max(0, min(((kIsA ? it.m : it.n) - first + kBox - 1) / kBox, kBoxes));
      KILN_NO_UNROLL for (int block = work.begin; block < work.end; ++block, at.advance()) {
        empty(at.slot).wait(at.parity ^ 1);
        const Barrier barrier = full(at.slot);
        barrier.arrive_and_expect(static_cast<tl::uint32_t>(boxes * kBoxBytes));
        ask<kMn, kExtent, kSharers>(shared + at.slot * places().stage_bytes() + (kIsA ? 0 : kABytes),
                                    kIsA ? a_map : b_map, barrier, block * kBlockK, first,
                                    work.tile.batch * (kIsA ? it.a_batch : it.b_batch), share, sharers, boxes);
      }
      if (!has_work(progress)) break;
      work = take_work(progress);
    }
    // Others say that they have read what this block sent them: it stays until they all have.
    if (kIsA && TILING.cluster_m * TILING.cluster_n > 1)
      KILN_NO_UNROLL for (int i = 0; i < TILING.stages; ++i, at.advance()) empty(at.slot).wait(at.parity ^ 1);
  }

  /// Tells every block that writes this one's stage that a group is done with it, or where warps load by themselves
  /// each of its warps.
  KILN_DEVICE void release(tl::uint32_t slot, int thread) const {
    if constexpr (kLoadsA) thread %= 32;
    if constexpr (TILING.cluster_m * TILING.cluster_n == 1) {
      if (thread == 0) empty(slot).arrive();
    } else if (thread < TILING.cluster_m * TILING.cluster_n) {
      // In a row or a column of blocks everyone writes to everyone.
      if (TILING.cluster_m == 1 || TILING.cluster_n == 1 || thread % TILING.cluster_m == down() ||
          thread / TILING.cluster_m == across())
        empty(slot).arrive_in_block(static_cast<tl::uint32_t>(thread));
    }
  }

  using Accumulators = Accumulator[TILING.row_blocks()][kRegisters];

  KILN_DEVICE void multiply(Accumulators& d, const Work& work, tl::sm90::RingPosition<TILING.stages>& at, int group,
                            int thread) const {
    if constexpr (kLoadsA)
      multiply_loaded(d, work.begin, work.end, at, group, thread);
    else
      multiply_shared(d, work.begin, work.end, at, group, thread);
  }

  /// Parts of a are loaded ahead of their products, so that the next is ready while one runs.
  KILN_DEVICE void multiply_loaded(Accumulators& d, int begin, int end, tl::sm90::RingPosition<TILING.stages>& at,
                                   int group, int thread) const {
    using Fragment = tl::sm90::Fragment<AT, matmul_sm90_panel(static_cast<int>(sizeof(AT)), TILING.block_m)>;
    const Fragment fragment(thread, TILING.tile_each ? 0 : group * TILING.row_blocks());
    const auto address_of = [&](tl::uint32_t slot) { return shared + slot * places().stage_bytes(); };
    // A part takes the place of one whose product is done with. With more row blocks there are registers for one ahead
    // alone. To let three products run instead of two changes nothing.
    constexpr int kAhead = TILING.row_blocks() > 2 ? 1 : 2, kPlacesOfA = 2 * kAhead;
    tl::uint32_t a[kPlacesOfA][TILING.row_blocks()][4];
    const auto load = [&](tl::uint32_t stage, int step) {
      KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i) fragment.load(stage, i, step, a[step % kPlacesOfA][i]);
    };
    full(at.slot).wait(at.parity);
    KILN_UNROLL for (int step = 0; step < kAhead; ++step) load(address_of(at.slot), step);
    tl::uint32_t before = 0;
    KILN_NO_UNROLL for (int block = begin; block < end; ++block) {
      tl::sm90::RingPosition<TILING.stages> next = at;
      next.advance();
      // After the last block the loads repeat themselves.
      const tl::sm90::RingPosition<TILING.stages> ahead = block + 1 < end ? next : at;
      const tl::uint64_t b = tl::sm90::operand_descriptor(address_of(at.slot) + kABytes, kPanelBytes);
      KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i) tl::sm90::keep_registers(d[i]);
      KILN_UNROLL for (int step = 0; step < kSteps; ++step) {
        KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i) tl::sm90::keep_registers(a[step % kPlacesOfA][i]);
        tl::sm90::products_begin();
        KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i)
            tl::sm90::product<AT, BT>(d[i], a[step % kPlacesOfA][i], b + step * tl::sm90::kStepBytes<BT, kMajorB> / 16,
                                      block > begin || step > 0);
        tl::sm90::products_commit();
        if constexpr (kAhead == 1) tl::sm90::products_wait<1>();
        if (step == kSteps - kAhead) full(ahead.slot).wait(ahead.parity);
        load(address_of(step < kSteps - kAhead ? at.slot : ahead.slot), (step + kAhead) % kSteps);
        tl::sm90::products_wait<1>();
        if (step == 0 && block > begin) release(before, thread);
      }
      KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i) tl::sm90::keep_registers(d[i]);
      before = at.slot;
      at = next;
    }
  }

  KILN_DEVICE void multiply_shared(Accumulators& d, int begin, int end, tl::sm90::RingPosition<TILING.stages>& at,
                                   int group, int thread) const {
    const int row_block = TILING.tile_each ? 0 : group * TILING.row_blocks();
    tl::uint32_t before = 0;
    KILN_NO_UNROLL for (int block = begin; block < end; ++block) {
      full(at.slot).wait(at.parity);
      const tl::uint32_t stage = shared + at.slot * places().stage_bytes();
      const tl::uint64_t a =
          tl::sm90::operand_descriptor(stage + static_cast<tl::uint32_t>(row_block) * 64 * kRowBytes, kPanelBytes);
      const tl::uint64_t b = tl::sm90::operand_descriptor<kRowBytesOfB>(stage + kABytes, kPanelBytes);
      KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i) tl::sm90::keep_registers(d[i]);
      tl::sm90::products_begin();
      KILN_UNROLL for (int step = 0; step < kSteps; ++step) KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i)
          tl::sm90::product<AT, BT, kMajorA, kMajorB>(
              d[i], a + (step * tl::sm90::kStepBytes<AT, kMajorA> + i * 64 * kRowBytes) / 16,
              b + step * kStepBytesOfB / 16, block > begin || step > 0);
      tl::sm90::products_commit();
      KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i) tl::sm90::keep_registers(d[i]);
      tl::sm90::products_wait<1>();
      if (block > begin) release(before, thread);
      before = at.slot;
      at.advance();
    }
  }

  /// See MatmulSm90Output: of a tile of the block, whichever group has it.
  KILN_DEVICE void prefetch_addends(Tile tile, int group, int thread) const {
    if constexpr (!TILING.tile_each) tile.row += group * 64 * TILING.row_blocks();
    output.prefetch_addends(tile, 64 * TILING.row_blocks(), thread);
  }

  KILN_DEVICE static void finish_products(Accumulators& d) {
    tl::sm90::products_wait<0>();
    KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i) tl::sm90::keep_registers(d[i]);
  }

  /// Whether this block has columns of its cluster's tile to store.
  KILN_DEVICE bool is_owner() const {
    return TILING.owners() == TILING.split_k || rank < static_cast<tl::uint32_t>(TILING.owners());
  }

  /// Sends each owner its columns of this block's part; an owner sums all parts of its own in the order of k.
  KILN_DEVICE void add_parts(const Accumulators& d, Accumulator (&sum)[kRegisters / TILING.owners()], int group,
                             int thread) const {
    constexpr int kOwnQuads = kRegisters / 4 / TILING.owners(), kPitch = tl::sm90::kWarpgroupThreads * 16;
    const tl::uint32_t parts =
        shared + static_cast<tl::uint32_t>(places().parts() + group * kOwnQuads * kPitch + thread * 16);
    const auto place_of = [&](int sender, int receiver, int quad) {
      return parts + static_cast<tl::uint32_t>((sender - (sender > receiver)) * places().part_bytes() + quad * kPitch);
    };
    const int own = static_cast<int>(rank);
    KILN_UNROLL for (int to = 0; to < TILING.owners(); ++to) {
      if (to == own) {
        KILN_UNROLL for (int i = 0; i < 4 * kOwnQuads; ++i) sum[i] = d[0][4 * kOwnQuads * to + i];
      } else {
        KILN_UNROLL for (int quad = 0; quad < kOwnQuads; ++quad) {
          uint4 value;
          memcpy(&value, &d[0][4 * (kOwnQuads * to + quad)], sizeof value);
          tl::sm90::send_to_block(place_of(own, to, quad), value, parts_arrived(), static_cast<tl::uint32_t>(to));
        }
      }
    }
    if (!is_owner()) return;
    parts_arrived().wait(0);
    KILN_UNROLL for (int quad = 0; quad < kOwnQuads; ++quad) {
      Accumulator total[4] = {};
      KILN_UNROLL for (int part = 0; part < TILING.split_k; ++part) {
        Accumulator values[4];
        const uint4 bits = tl::sm90::get_shared_quad(place_of(part == own ? part ^ 1 : part, own, quad));
        memcpy(values, &bits, sizeof bits);
        KILN_UNROLL for (int i = 0; i < 4; ++i) total[i] += part == own ? sum[4 * quad + i] : values[i];
      }
      KILN_UNROLL for (int i = 0; i < 4; ++i) sum[4 * quad + i] = total[i];
    }
  }

  /// The sums of a part of k, quad after quad of all threads' registers.
  KILN_DEVICE void leave_part(const Accumulators& d, int slot, int group, int thread) const {
    constexpr int kQuads = TILING.block_n / 8, kThreads = tl::sm90::kWarpgroupThreads;
    const long long block = static_cast<long long>(slot) * TILING.cluster_blocks() + rank;
    const int row_block = TILING.tile_each ? 0 : group * TILING.row_blocks();
    uint4* const to = parts + (block * (TILING.block_m / 64) + row_block) * (kQuads * kThreads) + thread;
    KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i) KILN_UNROLL for (int quad = 0; quad < kQuads; ++quad) {
      uint4 value;
      memcpy(&value, &d[i][4 * quad], sizeof value);
      to[(i * kQuads + quad) * kThreads] = value;
    }
  }

  KILN_DEVICE void consume(Work work, Progress progress, int group, int thread) const {
    prefetch_addends(work.tile, group, thread);
    tl::sm90::RingPosition<TILING.stages> at;
    int buffer = 0;
    bool is_first = true, has_more = true;
    if (TILING.tile_each && group == 1) {
      // The other group has the first.
      is_first = false;
      at.advance(static_cast<tl::uint32_t>(work.blocks()));
      has_more = has_work(progress);
      if (has_more) work = take_work(progress);
    }
    while (has_more) {
      Tile tile = work.tile;
      if constexpr (!TILING.tile_each) tile.row += group * 64 * TILING.row_blocks();
      if constexpr (TILING.split_k > 1) tile.column += static_cast<int>(rank) * TILING.columns();
      typename Output::AskedAddends asked;
      output.ask_addends(tile, thread, asked);
      if constexpr (Output::kPrefetchesAddends)
        if (Progress ahead = progress; has_work(ahead)) prefetch_addends(take_work(ahead).tile, group, thread);
      Accumulators d;
      // A barrier's parity tells only neighbouring phases apart: a group waits for stages once the other has taken all
      // before them.
      if (TILING.tile_each && !is_first) tl::sm90::named_sync(kFirstTurn + group, kMathThreads);
      is_first = false;
      multiply(d, work, at, group, thread);
      has_more = has_work(progress);
      if (TILING.tile_each && has_more) tl::sm90::named_arrive(kFirstTurn + (group ^ 1), kMathThreads);
      finish_products(d);
      release((at.slot + TILING.stages - 1) % TILING.stages, thread);
      if (TILING.shares && work.slot != Work::kWhole) {
        leave_part(d, work.slot, group, thread);
      } else {
        typename Output::RowAddends held[TILING.row_blocks()];
        output.take_addends(group, thread, asked, held);
        if constexpr (TILING.split_k > 1) {
          Accumulator sum[kRegisters / TILING.owners()];
          add_parts(d, sum, group, thread);
          if (is_owner()) output.store(sum, held[0], tile, group, thread, buffer);
        } else {
          KILN_UNROLL for (int i = 0; i < TILING.row_blocks(); ++i) {
            output.store(d[i], held[i], tile, group, thread, buffer);
            tile.row += 64;
          }
        }
      }
      if (TILING.tile_each && has_more) {
        at.advance(static_cast<tl::uint32_t>(take_work(progress).blocks()));
        has_more = has_work(progress);
      }
      if (has_more) work = take_work(progress);
    }
    if (LAYOUT.out_is_mapped && thread == 0) tl::sm90::wait_until_stores_read<0>();
  }

  /// The order of things is for small products, which take no longer than what comes before the first box arrives.
  KILN_DEVICE void run() {
    const int warp = tl::sm90::warp_uniform(static_cast<int>(threadIdx.x) / 32);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0) {
      if (warp == 0) tl::sm90::prefetch(a_map);
      if (warp == 1) tl::sm90::prefetch(b_map);
      if (LAYOUT.out_is_mapped && warp == 4) tl::sm90::prefetch(output.out_map);
      // One warp would need 50 cycles for each.
      KILN_UNROLL for (int i = 0; i < 2 * TILING.stages + (TILING.split_k > 1); i += kWarps) {
        const int barrier = i + warp;
        const int arrivals = barrier < TILING.stages ? 2  // what was asked for of a and of b
                             : barrier < 2 * TILING.stages
                                 ? kReleases * TILING.sharing_groups() * (TILING.cluster_m + TILING.cluster_n - 1)
                                 : 1;
        if (barrier < 2 * TILING.stages + (TILING.split_k > 1)) full(static_cast<tl::uint32_t>(barrier)).init(arrivals);
      }
      tl::sm90::barriers_ready();
    }
    __syncwarp();
    Progress progress = start();
    const Work work = take_work(progress);
    if constexpr (TILING.cluster_blocks() > 1)
      tl::sm90::cluster_meet();
    else
      __syncthreads();
    constexpr bool kMovesRegisters =
        TILING.resident == 1 && TILING.math_groups > 1 && TILING.row_blocks() * kRegisters > (kLoadsA ? 32 : 64);
    if (__builtin_expect(warp < 4, 1)) {
      if constexpr (kMovesRegisters) tl::sm90::give_registers<40>();
      if (lane == 0) {
        if (warp == 0) produce<true>(work, progress);
        if (warp == 1) produce<false>(work, progress);
        if (TILING.split_k > 1 && warp == 2 && is_owner())
          parts_arrived().arrive_and_expect((TILING.split_k - 1) * places().part_bytes());
      }
    } else {
      if constexpr (kMovesRegisters) tl::sm90::take_registers<232>();
      consume(work, progress, warp / 4 - 1, static_cast<int>(threadIdx.x) % tl::sm90::kWarpgroupThreads);
    }
  }
};

/// See MatmulSm90. `a` and `b` stand only for their types; scales: one f32 each, where the epilogue has them. `parts`:
/// scratch memory, where tiles are shared.
template <typename Out, typename Addend, typename A, typename B, typename Epilogue, MatmulSm90Tiling TILING,
          MatmulSm90Layout LAYOUT>
__global__ __launch_bounds__(32 * KILN_NUM_WARPS, TILING.resident)
    __cluster_dims__(TILING.cluster_blocks()) void matmul_sm90_kernel(
        const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
        const __grid_constant__ TensorMap out_map, Out* out, const Addend* addend, const float* scale_a,
        const float* scale_b, MatmulScalars<typename Epilogue::Compute> scalars,
        const __grid_constant__ MatmulSm90Iteration iteration, float* parts) {
  using Kernel = MatmulSm90<Out, Addend, A, B, Epilogue, TILING, LAYOUT>;
  static_assert(32 * KILN_NUM_WARPS == (1 + TILING.math_groups) * tl::sm90::kWarpgroupThreads,
                "a warpgroup more than multiply");
  extern __shared__ __align__(1024) unsigned char shared[];
  tl::wait_for_previous();
  Epilogue epilogue{scalars};
  if constexpr (Epilogue::kScaled) epilogue.scale(*scale_a, *scale_b);
  const tl::uint32_t address = tl::sm90::shared_address(shared);
  Kernel kernel{address,
                a_map,
                b_map,
                iteration,
                TILING.cluster_blocks() > 1 ? tl::sm90::cluster_rank() : 0,
                reinterpret_cast<uint4*>(parts),
                {address, out_map, out, addend, epilogue, iteration}};
  kernel.run();
}

}  // namespace kiln::ops
