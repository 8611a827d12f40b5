"""A kernel that takes as long as it is asked to and moves no data."""

from __future__ import annotations

import statistics
from functools import cache

import kiln

SOURCE = """
#include <kiln/tl.hpp>
// Steps of which each needs the one before, and of which no compiler makes one of several, as it does of a linear chain.
template <typename T>
KILN_KERNEL void spin(T* kept, tl::int64_t steps) {
  T x = static_cast<T>(steps);
  for (tl::int64_t i = 0; i < steps; ++i) x = (x ^ (x >> 7)) * T(1664525) + T(1013904223);
  if (x == T(1)) kept[0] = x;
}
"""
OP = "kiln_experiment_spin"
FEW, MANY = 20_000, 220_000  # steps, whose difference is the loop's alone


@cache
def register() -> None:
    """Makes the op; an op that is there stays."""
    kiln.register_op(
        OP,
        kernel=kiln.Kernel(SOURCE, "spin", grid=1),
        inputs=[kiln.Input("kept", mutated=True)],
        attributes={"steps": int},
        launch=lambda call, config: kiln.Launch(
            1, template={"T": call["kept"].dtype}, arguments={"kept": call["kept"], "steps": call["steps"]}
        ),
        dtypes=["u32"],
    )


class Spin:
    """The op on a device, and how many steps a microsecond takes there."""

    def __init__(self, device: str, stream: kiln.Stream) -> None:
        register()
        # Of the stream that calls run on: tensors of another would have each call wait for its work.
        self.kept, self.stream = kiln.empty(1, "u32", device, stream=stream), stream
        few, many = self._median_us(FEW), self._median_us(MANY)
        self.steps_per_us = (MANY - FEW) / max(many - few, 1e-3)

    def _median_us(self, steps: int) -> float:
        kiln.dispatch_gpu_op(OP, self.kept, steps=steps, stream=self.stream)
        times = []
        for _ in range(15):
            start, stop = (kiln.Event(self.stream.device, timed=True) for _ in range(2))
            start.record(self.stream)
            kiln.dispatch_gpu_op(OP, self.kept, steps=steps, stream=self.stream)
            stop.record(self.stream)
            stop.synchronize()
            times.append(start.elapsed_us(stop))
        return statistics.median(times)

    def steps_of(self, duration_us: float) -> int:
        """Steps that take about as long, without the launch."""
        return max(1, round(duration_us * self.steps_per_us))

    def dispatch(self, steps: int) -> None:
        kiln.dispatch_gpu_op(OP, self.kept, steps=steps, stream=self.stream)

    def resolved(self, steps: int) -> kiln.ResolvedOp:
        return kiln.resolve(OP, self.kept, steps=steps, stream=self.stream)
