"""Processes killed at any moment: the caches stay whole, and nothing that was kept before is lost.

`kiln run`, `tune` and `bench` share one small cache, so that they write, prune and tune all the time, and end by SIGKILL
after a random while. After each few, `kiln cache verify` must find nothing damaged, every tuned choice of a process that
came to its end must still be there, and a call must be right.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
from typing import Any

from attack import Attack


def command(draw: random.Random) -> list[str]:
    op, shape = draw.choice([("add", "{}x64"), ("transpose", "{}x40"), ("softmax", "8x{}"), ("sum", "{}x16")])
    arguments = [op, "--shape", shape.format(draw.randrange(1, 200)), "--device", "cpu"]
    arguments += ["--dtype", draw.choice(["f32", "f16", "f64"])]
    return draw.choice([["run", *arguments], ["tune", *arguments, "--budget", "1s"], ["bench", *arguments]])


def main() -> None:
    attack = Attack(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="kiln-attack-") as folder:
        environment = {**os.environ, "KILN_CACHE_DIR": folder, "KILN_CACHE_SIZE": "120K", "KILN_NUM_THREADS": "1"}

        def kiln(case: int, *arguments: str) -> Any:
            done = subprocess.run(
                [attack.options.kiln, *arguments, "--json"], env=environment, capture_output=True, timeout=120
            )
            if done.returncode != 0:
                attack.fail(case, f"kiln {' '.join(arguments)}: {done.returncode}: {done.stdout!r} {done.stderr!r}")
            return json.loads(done.stdout)

        def tuned(case: int) -> set[str]:
            return {
                json.dumps([entry[name] for name in ("op", "dtypes", "shapes")])
                for entry in kiln(case, "cache", "list", "--tuning")
            }

        for op in ("add", "sum"):
            kiln(0, "tune", op, "--shape", "64x64", "--device", "cpu", "--budget", "1s")
        kept = tuned(0)
        killed = 0
        for case in attack.cases():
            draw = attack.random(case)
            processes = [
                subprocess.Popen(
                    [attack.options.kiln, *command(draw)],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                for _ in range(draw.randrange(1, 4))
            ]
            for process in processes:
                try:
                    process.wait(draw.uniform(0, draw.choice([0.2, 0.8, 2.5])))
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    killed += 1
            if case % 4 != 3:
                continue
            found = kiln(case, "cache", "verify")
            if found["damaged"] or found["left"]:
                attack.fail(case, f"the cache holds what is damaged, or not Kiln's: {found}")
            now = tuned(case)
            if not kept <= now:
                attack.fail(case, f"tuned choices are gone: {sorted(kept - now)}")
            kept = now
            if not all(check["ok"] for check in kiln(case, "run", *command(draw)[1:6], "--check")["check"]):
                attack.fail(case, "a call is wrong")
        kiln(attack.done, "cache", "prune", "--to", "0")
        left = [name for part in ("staging", "locks") for name in os.listdir(os.path.join(folder, "artifacts", part))]
        if left:
            attack.fail(attack.done, f"what killed processes left was not removed: {left}")
    attack.finish(killed=killed, tuned_choices=len(kept))


if __name__ == "__main__":
    main()
