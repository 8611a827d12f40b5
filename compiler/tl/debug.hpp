#pragma once

#include "compiler/tl/arithmetic.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/assertion.hpp"
#else
#include "compiler/tl/cpu/assertion.hpp"
#endif

namespace kiln::tl {

/// Stops the kernel where `condition` (a number, a tile or a mask) is false, in kernels compiled with KILN_DEBUG; other
/// kernels hold nothing of it but what computing the condition costs. The launch reports a DeviceError. On the GPU it
/// does so at the next synchronisation, the driver prints the message to stderr, and the process loses its context; on
/// the CPU the program ends there, other programs may still run or not, and the error has message, place and program.
template <Operand C>
KILN_DEVICE void device_assert([[maybe_unused]] const C& condition, [[maybe_unused]] const char* message,
                               [[maybe_unused]] const char* file = __builtin_FILE(),
                               [[maybe_unused]] int line = __builtin_LINE()) {
#if defined(KILN_DEBUG)
  bool holds = true;
  if constexpr (Number<C>) {
    holds = cast<bool>(condition);
  } else {
    const auto values = cast<bool>(to_values(condition));
    using Layout = typename remove_cvref_t<decltype(values)>::layout;
    KILN_UNROLL for (int r = 0; r < Layout::kRegisters; ++r) holds = holds && (!Layout::owns(r) || values.registers[r]);
  }
  if (!holds) assertion_failed(message, file, line);
#endif
}

/// One line; kRank is the number of coordinates that lead to the value.
template <int kRank, Number T>
KILN_DEVICE void print_value(const char* text, [[maybe_unused]] int row, [[maybe_unused]] int column, T value) {
#define KILN_PRINT_VALUE(conversion, As)                                                                               \
  if constexpr (kRank == 0)                                                                                            \
    printf("pid (%lld, %lld, %lld) %s" conversion "\n", program_id(0), program_id(1), program_id(2), text,             \
           cast<As>(value));                                                                                           \
  else if constexpr (kRank == 1)                                                                                       \
    printf("pid (%lld, %lld, %lld) idx (%d) %s" conversion "\n", program_id(0), program_id(1), program_id(2), column,  \
           text, cast<As>(value));                                                                                     \
  else                                                                                                                 \
    printf("pid (%lld, %lld, %lld) idx (%d, %d) %s" conversion "\n", program_id(0), program_id(1), program_id(2), row, \
           column, text, cast<As>(value))
  // A number travels as the widest of its kind.
  if constexpr (Floating<T>) {
    KILN_PRINT_VALUE("%.9g", double);
  } else if constexpr (NumberTraits<T>::kIsSigned) {
    KILN_PRINT_VALUE("%lld", int64_t);
  } else {
    KILN_PRINT_VALUE("%llu", uint64_t);
  }
#undef KILN_PRINT_VALUE
}

template <Operand V>
KILN_DEVICE void print_operand(const char* text, const V& value) {
  if constexpr (Number<V>) {
    if (is_first_thread()) print_value<0>(text, 0, 0, value);
  } else {
    const auto values = to_values(value);
    using Values = remove_cvref_t<decltype(values)>;
    using Layout = typename Values::layout;
    KILN_UNROLL for (int r = 0; r < Layout::kRegisters; ++r) if (Layout::owns(r))
        print_value<Values::shape::kRank>(text, Layout::row(r), Layout::column(r), values.registers[r]);
  }
}

/// Writes `text` and each value to stdout, one line for every number and for every element of a tile, with the program
/// and the element's place: "pid (2, 0, 0) idx (17) x: 0.5" for device_print("x: ", x). Always active. On the GPU the
/// driver writes the lines when the device is synchronised, and drops some when there are too many at once (1 MB).
template <Operand... V>
KILN_DEVICE void device_print(const char* text, const V&... values) {
  if constexpr (sizeof...(V) == 0) {
    if (is_first_thread()) printf("pid (%lld, %lld, %lld) %s\n", program_id(0), program_id(1), program_id(2), text);
  } else {
    (print_operand(text, values), ...);
  }
}

}  // namespace kiln::tl
