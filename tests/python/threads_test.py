"""Threads: other Python threads run while Kiln compiles, launches and tunes, and any number may call at once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kiln
import numpy
import pytest
from op_case import Call, cases, op_names
from process_memory import resident_bytes

LEAST_SECONDS = 0.15  # of work, for a pause to be told from one of the scheduler


class Heart:
    """A thread that beats every millisecond; its longest pause says how long nobody else could run Python."""

    def __enter__(self) -> Heart:
        self.longest_pause = 0.0
        self.beats = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat)
        self._thread.start()
        self.started = time.monotonic()
        return self

    def _beat(self) -> None:
        last = time.monotonic()
        while not self._stop.is_set():
            time.sleep(0.001)
            now = time.monotonic()
            self.longest_pause = max(self.longest_pause, now - last)
            last = now
            self.beats += 1

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self.started
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        print(f"{self.seconds:.3f} s, {self.beats} beats, longest pause {self.longest_pause:.3f} s")
        assert self.seconds >= LEAST_SECONDS, "too short to tell"
        assert self.longest_pause < self.seconds / 2


def test_others_run_while_a_large_call_does() -> None:
    x = numpy.ones(1 << 25, numpy.float32)
    out = numpy.empty_like(x)
    kiln.ops.erf(x[:1000])
    with Heart() as heart:
        while time.monotonic() - heart.started < LEAST_SECONDS:
            kiln.ops.erf(x, out=out)
    heart.check()


def test_others_run_while_a_kernel_compiles() -> None:
    """In a process with an empty cache: it loads the compiler and builds matrix products."""
    script = """
        import numpy, sys, tempfile, os
        sys.path.insert(0, sys.argv[1])
        with tempfile.TemporaryDirectory() as cache:
            os.environ["KILN_CACHE_DIR"] = cache
            import kiln
            from threads_test import Heart
            with Heart() as heart:
                for dtype in ("float32", "float64", "float16", "int8"):  # a kernel each
                    x = numpy.ones((64, 64), dtype)
                    kiln.ops.matmul(x, x)
            heart.check()
    """
    directory = str(__import__("pathlib").Path(__file__).parent)
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script), directory], capture_output=True, text=True)
    print(run.stdout)
    assert run.returncode == 0, run.stderr


def test_others_run_while_tuning() -> None:
    x = numpy.ones((256, 256), numpy.float32)
    with Heart() as heart:
        while time.monotonic() - heart.started < LEAST_SECONDS:
            kiln.autotune("transpose", x, budget_s=1.0, progress=False, record=False)
    heart.check()


def run_together(workers: list[Callable[[], Any]]) -> None:
    """All at once; the first exception of any comes out."""
    barrier = threading.Barrier(len(workers))

    def start(worker: Callable[[], Any]) -> Any:
        barrier.wait()
        return worker()

    with ThreadPoolExecutor(len(workers)) as pool:
        for future in [pool.submit(start, worker) for worker in workers]:
            future.result()


def test_one_op_from_many_threads() -> None:
    def work(seed: int) -> None:
        random = numpy.random.default_rng(seed)
        for _ in range(150):
            size = int(random.integers(1, 3000))
            x, y = random.standard_normal((2, size), dtype=numpy.float32)
            numpy.testing.assert_array_equal(kiln.ops.add(x, y), x + y)

    run_together([lambda seed=seed: work(seed) for seed in range(16)])


def test_cold_calls_of_one_op_from_many_threads() -> None:
    """All ask for the same kernel before there is one."""
    x = numpy.arange(2, 802, dtype=numpy.float64)

    def work() -> None:
        numpy.testing.assert_allclose(kiln.ops.rsqrt(x), 1 / numpy.sqrt(x), rtol=1e-13)

    run_together([work] * 12)


def test_different_ops_from_many_threads(random: numpy.random.Generator) -> None:
    """Calls of every op, some of them cold, each checked against its reference."""
    names = [str(name) for name in random.permutation(op_names())]

    def work(share: list[str], seed: int) -> None:
        own = numpy.random.default_rng(seed)
        for name in share:
            op = kiln.op(name)
            for case in cases(op.spec, own, examples=1, dtypes=1, calls=0):
                Call(op, case, "numpy").run()

    seeds = random.integers(2**31, size=6)
    run_together([lambda i=i: work(names[i::6][:9], int(seeds[i])) for i in range(6)])


def test_a_resolved_op_from_many_threads() -> None:
    x = numpy.ones(777, numpy.float32)
    resolved = kiln.resolve("add", x, x)

    def work(value: float) -> None:
        mine = numpy.full(777, value, numpy.float32)
        for _ in range(500):
            assert (resolved(mine, x) == value + 1).all()

    run_together([lambda value=value: work(float(value)) for value in range(8)])


def test_errors_in_threads_stay_there() -> None:
    x = numpy.ones(10, numpy.float32)

    def refused() -> None:
        for _ in range(200):
            with pytest.raises(ValueError, match="shapes do not broadcast"):
                kiln.ops.add(x, x[:3])

    def served() -> None:
        for _ in range(200):
            assert (kiln.ops.add(x, x) == 2).all()

    run_together([refused, served] * 4)


def test_threads_that_end_leave_nothing() -> None:
    x = numpy.ones(10, numpy.float32)

    def generation() -> None:
        threads = [threading.Thread(target=lambda: kiln.ops.add(x, x)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for _ in range(20):
        generation()
    before = resident_bytes()
    for _ in range(50):
        generation()
    assert resident_bytes() - before < 8 << 20


def test_others_run_while_a_reference_does() -> None:
    spec = kiln.ops.exp.spec
    x = numpy.ones(4_000_000, numpy.float32)
    out = numpy.empty_like(x)
    with Heart() as heart:
        spec.reference([x], [out])
        spec.fill_inputs([x])
    assert heart.beats > 3


@pytest.mark.parametrize("work", ["while True: kiln.ops.exp(x)", "kiln.ops.exp(numpy.ones(50_000_000, numpy.float32))"])
def test_the_interpreter_may_end_while_a_daemon_works(work: str) -> None:
    program = f"""
        import threading, time
        import kiln, numpy
        x = numpy.ones((4, 4), numpy.float32)
        kiln.ops.exp(x)
        def forever():
            {work}
        threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.05)
    """
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
