"""What a check that takes minutes looks at in one run: a third, drawn anew each time."""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def drawn_third(items: Sequence[Item]) -> list[Item]:
    """A third of the items, in their order, drawn by KILN_TEST_SEED or else anew; with KILN_SWEEP=full all of them. Prints what repeats the run."""
    if os.environ.get("KILN_SWEEP") == "full":
        return list(items)
    seed = int(os.environ.get("KILN_TEST_SEED") or random.SystemRandom().randrange(2**32))
    chosen = sorted(random.Random(seed).sample(range(len(items)), (len(items) + 2) // 3))
    print(
        f"{len(chosen)} of {len(items)}, drawn; KILN_TEST_SEED={seed} repeats them, KILN_SWEEP=full takes all",
        flush=True,
    )
    return [items[index] for index in chosen]
