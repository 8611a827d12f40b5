"""What the attacks share: arguments, a clock, random numbers that a seed repeats, and how a failure is shown."""

from __future__ import annotations

import argparse
import pathlib
import random
import sys
import time
from collections.abc import Iterator
from typing import NoReturn


class Attack:
    """`for case in attack.cases(): ...` goes on until the time is over; the case's number and the seed repeat it."""

    def __init__(self, doc: str) -> None:
        parser = argparse.ArgumentParser(description=doc)
        parser.add_argument("--seconds", type=float, default=600, help="how long to go on")
        parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
        parser.add_argument("--case", type=int, help="this one alone")
        parser.add_argument("--kiln", type=pathlib.Path, default=pathlib.Path("build/bin/kiln"), help="the command")
        self.options = parser.parse_args()
        self.options.kiln = self.options.kiln.absolute()
        self.name = pathlib.Path(sys.argv[0]).stem
        self.done = 0
        print(f"{self.name}: seed {self.options.seed}", flush=True)

    def random(self, case: int) -> random.Random:
        return random.Random(self.options.seed * 1_000_003 + case)

    def cases(self) -> Iterator[int]:
        if self.options.case is not None:
            yield self.options.case
            self.done = 1
            return
        end = time.monotonic() + self.options.seconds
        while time.monotonic() < end:
            yield self.done
            self.done += 1

    def fail(self, case: int, reason: str) -> NoReturn:
        print(f"{self.name}: FAILED with --seed {self.options.seed} --case {case}: {reason}", flush=True)
        sys.exit(1)

    def finish(self, **counts: int) -> None:
        """The closing line; an attack of which nothing came through, or that tried nothing, tests nothing."""
        said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
        print(f"{self.name}: {self.done} cases, 0 failures ({said})", flush=True)
        if self.done == 0:
            sys.exit(1)
