// The table through which the host gives a kernel tensor maps for the boxes of its pipelines. Host code includes it,
// and so do kernels: hence no #include and only constexpr code.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define KILN_BOX_MAP_INLINE __host__ __device__ __forceinline__ constexpr
#else
#define KILN_BOX_MAP_INLINE inline constexpr
#endif

namespace kiln {

/// Tensor maps (TMA descriptors) of boxes of one form: so many lines of so many elements of so many bytes, swizzled as
/// wide as a line is. They are found by the bytes from one line to the next, and each has one slot, so that a kernel
/// looks in one place.
///
/// A map knows no address, so that one serves every tensor with that distance: its dimensions are the elements of a
/// line, lines, places in memory kPlaceBytes apart, and places 2^kFarBits bytes apart, from kOrigin on. The first
/// two end where a box that lies at their start ends. A box with elements missing is moved towards that end, so that
/// what is missing lies outside and reads as zeros, and its place is moved back by as much. All of it by whole places:
/// an H200 ends kernels whose boxes start elsewhere in a line with an illegal instruction.
/// A map per tensor, made at each launch, was the alternative: a call of a few microseconds has no time for it, and it
/// would have to know how a kernel's addresses follow from its parameters.
struct BoxMapTable {
  static constexpr int kSlots = 32;
  static constexpr int kMapBytes = 128;
  static constexpr int kPlaceBytes = 16, kNearPlaces = 0x7fffffff, kFarBits = 35, kFarPlaces = 1 << 12;
  static constexpr long long kOrigin = 1 << 20;  ///< below all memory; the driver makes no map of address 0
  /// No device memory lies below. A box with lines missing begins as many lines before its tile, which must not be
  /// before kOrigin: lines of which those of a box reach further (128 of 64 MiB) have no map.
  static constexpr long long kLeastAddress = 1LL << 33;
  /// Of the map for boxes of which all is missing. It is over memory that is there: the copy engine looks at a map's
  /// own address when a box is all outside, and faults on the others'.
  static constexpr int kNothing = kSlots;

  struct alignas(64) Map {
    unsigned char bytes[kMapBytes];
  };
  Map maps[kSlots + 1];
  /// Of each slot: the bytes from one line to the next, a multiple of kPlaceBytes up to kMostLineBytes; 0: no map. One
  /// number of one register holds all that a kernel looks up.
  unsigned int keys[kSlots];
  static constexpr long long kMostLineBytes = 0xfffffff0;
  /// In a key: the kernel may have written global memory before it takes boxes, so that these must wait for that, a
  /// thousand clocks.
  static constexpr unsigned int kFollowsStores = 1;

  KILN_BOX_MAP_INLINE static int slot(long long line_bytes) {
    return static_cast<int>(static_cast<unsigned int>(line_bytes / kPlaceBytes) * 0x9e3779b1u >> 27);
  }
};

}  // namespace kiln

#undef KILN_BOX_MAP_INLINE
