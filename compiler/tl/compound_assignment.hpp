#pragma once

#include "compiler/tl/memory.hpp"

namespace kiln::tl {

// x op= y is x = x op y. A variable keeps its type in C++, so that what is symbolic takes what leaves it of its type.

/// Values, and numbers of narrow floats, whose result is rounded where it is assigned.
template <typename A>
concept AssignedByValue = ValueTile<A> || NumberTraits<A>::kIsNarrowFloat;

#define KILN_COMPOUND_ASSIGNMENT(op)                  \
  template <AssignedByValue A, Operand B>             \
  KILN_DEVICE A& operator op##=(A & a, const B & b) { \
    if constexpr (Number<A>)                          \
      return a = A(a op b);                           \
    else                                              \
      return a = a op b;                              \
  }
KILN_COMPOUND_ASSIGNMENT(+)
KILN_COMPOUND_ASSIGNMENT(-)
KILN_COMPOUND_ASSIGNMENT(*)
KILN_COMPOUND_ASSIGNMENT(/)
KILN_COMPOUND_ASSIGNMENT(%)
KILN_COMPOUND_ASSIGNMENT(&)
KILN_COMPOUND_ASSIGNMENT(|)
KILN_COMPOUND_ASSIGNMENT(^)
KILN_COMPOUND_ASSIGNMENT(<<)
KILN_COMPOUND_ASSIGNMENT(>>)
#undef KILN_COMPOUND_ASSIGNMENT

/// a = result, where that is of a's type.
template <typename A, typename Result>
KILN_DEVICE A& assign_symbolic(A& a, const Result& result) {
  static_assert(is_same<A, Result>,
                "the result is of another type than the symbolic variable, whose type says what its rows and columns "
                "are: give it a name of its own (auto next = ...)");
  if constexpr (is_same<A, Result>) a = result;
  return a;
}

#define KILN_COMPOUND_ASSIGNMENT(op, Symbolic)        \
  template <Symbolic A, typename B>                   \
  KILN_DEVICE A& operator op##=(A & a, const B & b) { \
    return assign_symbolic(a, a op b);                \
  }
KILN_COMPOUND_ASSIGNMENT(+, SymbolicIndex)
KILN_COMPOUND_ASSIGNMENT(-, SymbolicIndex)
KILN_COMPOUND_ASSIGNMENT(*, SymbolicIndex)
KILN_COMPOUND_ASSIGNMENT(&, SymbolicMask)
KILN_COMPOUND_ASSIGNMENT(+, AddressTile)
KILN_COMPOUND_ASSIGNMENT(-, AddressTile)
#undef KILN_COMPOUND_ASSIGNMENT

}  // namespace kiln::tl
