"""What a compile may take, and that whoever waits for one can be interrupted, whatever it does."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

# Instantiates four times as many templates with each level; 40 levels never end.
ENDLESS = """
#include <kiln/tl.hpp>
template <int DEPTH, tl::int64_t PATH> struct Tree {
  static constexpr tl::int64_t value = Tree<DEPTH - 1, 4 * PATH>::value + Tree<DEPTH - 1, 4 * PATH + 1>::value +
                                       Tree<DEPTH - 1, 4 * PATH + 2>::value + Tree<DEPTH - 1, 4 * PATH + 3>::value;
};
template <tl::int64_t PATH> struct Tree<0, PATH> { static constexpr tl::int64_t value = 1; };
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void endless(T* x) {
  x[0] = static_cast<T>(Tree<30, BLOCK_SIZE>::value);
}
"""

MAKE_KERNEL = f"""
import sys, threading, time
import kiln, numpy as np
x = np.zeros(4, np.float32)
endless = kiln.Kernel({ENDLESS!r}, grid=1, tunables={{"BLOCK_SIZE": [1, 2, 4]}})
"""


def start(body: str, cache: pathlib.Path, **environment: str) -> subprocess.Popen[str]:
    """A process that runs `body` with the kernel at hand; returns once it says that it begins."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAKE_KERNEL + "print('begins', flush=True)\n" + textwrap.dedent(body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"KILN_CACHE_DIR": str(cache)} | environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    return process


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str, float]:
    """Ctrl-C; what the process wrote, and the seconds until it was gone."""
    time.sleep(1.5)
    assert process.poll() is None
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    try:
        output, error = process.communicate(timeout=60)
    finally:
        process.kill()
    return output, error, time.monotonic() - begin


@pytest.mark.parametrize(
    "call",
    [
        "endless(x, BLOCK_SIZE=1)",
        "kiln.inspect(endless, x, emit='asm', config='BLOCK_SIZE=1')",
        "kiln.warm_up([(endless.op, [x])] * 3, num_threads=2)",
        "kiln.autotune(endless, x, budget_s=300, progress=False)",
        "kiln.set_tuning_policy('first_use'); endless(x)",
    ],
)
def test_ctrl_c_ends_a_compile(tmp_path: pathlib.Path, call: str) -> None:
    process = start(call, tmp_path)
    _, error, seconds = interrupt(process)
    assert process.returncode == -signal.SIGINT  # as Python ends; a crash of what was left behind would be another
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert seconds < 2


def test_ctrl_c_ends_the_wait_for_another_threads_compile(tmp_path: pathlib.Path) -> None:
    body = """
    threading.Thread(target=lambda: endless(x, BLOCK_SIZE=1), daemon=True).start()
    time.sleep(0.5)
    endless(x, BLOCK_SIZE=1)
    """
    _, error, seconds = interrupt(start(body, tmp_path))
    assert "KeyboardInterrupt" in error
    assert seconds < 2


def test_ctrl_c_ends_the_wait_for_another_process(tmp_path: pathlib.Path) -> None:
    other = start("endless(x, BLOCK_SIZE=1)", tmp_path)
    try:
        time.sleep(1)
        _, error, seconds = interrupt(start("endless(x, BLOCK_SIZE=1)", tmp_path))
    finally:
        other.kill()
        other.communicate()
    assert "KeyboardInterrupt" in error
    assert seconds < 2


def test_the_process_goes_on_after_an_interrupted_compile(tmp_path: pathlib.Path) -> None:
    body = """
    try:
        endless(x, BLOCK_SIZE=1)
    except KeyboardInterrupt:
        print(kiln.ops.add(x, x + 2)[0], flush=True)
    """
    output, error, seconds = interrupt(start(body, tmp_path))
    assert (output, error) == ("2.0\n", "")
    assert seconds < 4


def test_a_compile_has_a_deadline(tmp_path: pathlib.Path) -> None:
    body = """
    begin = time.monotonic()
    try:
        endless(x, BLOCK_SIZE=1)
    except kiln.CompileError as error:
        print(error, time.monotonic() - begin < 3)
    """
    output, error = start(body, tmp_path, KILN_COMPILE_TIMEOUT="1").communicate(timeout=60)
    assert error == ""
    assert "took longer than 1 s" in output
    assert "KILN_COMPILE_TIMEOUT" in output
    assert output.endswith("True\n")


def test_clangs_memory_has_a_bound(tmp_path: pathlib.Path) -> None:
    body = """
    import resource
    try:
        endless(x, BLOCK_SIZE=1)
    except kiln.CompileError as error:
        print(error, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2**20)
    """
    output, error = start(body, tmp_path, KILN_COMPILE_MEMORY="128M").communicate(timeout=60)
    assert error == ""
    assert "KILN_COMPILE_MEMORY" in output
    assert "134217728" in output
    assert output.endswith("True\n")


@pytest.mark.parametrize("value", ["0", "-3", "soon", "99999999999999999999"])
@pytest.mark.parametrize("name", ["KILN_COMPILE_TIMEOUT", "KILN_COMPILE_MEMORY"])
def test_bounds_that_are_none_are_refused(tmp_path: pathlib.Path, name: str, value: str) -> None:
    body = """
    try:
        endless(x, BLOCK_SIZE=1)
    except kiln.UsageValueError as error:
        print(error)
    """
    output, error = start(body, tmp_path, **{name: value}).communicate(timeout=60)
    assert error == ""
    assert name in output
    assert value in output
