"""kiln.autotune over a list of configs: of ops, of kernels, and of functions of one's own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import kiln
import numpy
import pytest
from refusal import refused

BUDGET_S = 3.0
CONFIGS = [{"ROWS": rows} for rows in (7, 8, 4096, 5, 3)]

KERNEL = """
#include <kiln/tl.hpp>
namespace tl = kiln::tl;

template <typename T, int BLOCK_SIZE>
KILN_KERNEL void listed(const T* x, T* out, tl::int64_t n) {
  static_assert(BLOCK_SIZE != 64, "64 does not compile");
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(out + offsets, tl::load(x + offsets, mask) * static_cast<T>(2), mask);
}
"""


def scaled(config: dict[str, int], x: numpy.ndarray, scale: float = 2.0) -> Any:
    """Right with 8 and 4096 rows, of which 8 take longer."""
    rows = config["ROWS"]
    if rows == 7:
        raise ValueError("seven does not divide 4096")
    if rows == 5:
        return x[:-1] * scale
    if rows == 3:
        return x * scale + 1
    return numpy.concatenate([x[i : i + rows] * scale for i in range(0, len(x), rows)])


@pytest.fixture(scope="module")
def x() -> numpy.ndarray:
    return numpy.ones((4096, 16), numpy.float32)


def test_a_function_is_tuned_and_what_was_found_is_kept(x: numpy.ndarray) -> None:
    assert kiln.tuned_config(scaled, x, configs=CONFIGS) is None
    table = kiln.autotune(scaled, x, configs=CONFIGS, budget_s=BUDGET_S, progress=False)
    assert table.chosen["config"] == {"ROWS": 4096}
    assert table.default["config"] == {"ROWS": 8}, "the first that works"
    outcomes = {row["config"]["ROWS"]: (row["outcome"], row["reason"]) for row in table}
    assert outcomes[7] == ("unlaunched", "ValueError: seven does not divide 4096")
    assert outcomes[5][0] == "mismatched" and "(4095, 16)" in outcomes[5][1]
    assert outcomes[3][0] == "mismatched" and "65536 of 65536" in outcomes[3][1]
    assert "function_tuning_test.scaled" in repr(table)
    assert kiln.tuned_config(scaled, x, configs=CONFIGS) == {"ROWS": 4096}


@pytest.mark.parametrize(
    ("arguments", "named", "configs"),
    [
        ((numpy.ones((4096, 8), numpy.float32),), {}, CONFIGS),
        ((numpy.ones((4096, 16)),), {}, CONFIGS),
        ((numpy.ones((16, 4096), numpy.float32).T,), {}, CONFIGS),
        ((numpy.ones((4096, 16), numpy.float32), 3.0), {}, CONFIGS),
        ((numpy.ones((4096, 16), numpy.float32),), {"scale": 3.0}, CONFIGS),
        ((numpy.ones((4096, 16), numpy.float32),), {}, CONFIGS[1:]),
    ],
    ids=["shape", "dtype", "layout", "argument", "named", "list"],
)
def test_another_call_is_another_question(
    arguments: tuple[Any, ...], named: dict[str, Any], configs: list[dict[str, int]], x: numpy.ndarray
) -> None:
    kiln.autotune(scaled, x, configs=CONFIGS, budget_s=0.3, progress=False)
    assert kiln.tuned_config(scaled, x, configs=CONFIGS) is not None
    assert kiln.tuned_config(scaled, *arguments, configs=configs, **named) is None


SCRIPT = """
import kiln, numpy

def doubled(config, x):
    return x * 2 if config["KIND"] else x + x

configs = [{"KIND": 0}, {"KIND": 1}]
x = numpy.ones(1000)
found = kiln.tuned_config(doubled, x, configs=configs)
if found is None:
    found = kiln.autotune(doubled, x, configs=configs, budget_s=0.5, progress=False).chosen["config"]
    print("tuned", found)
else:
    print("found", found)
"""


def test_another_process_finds_it() -> None:
    told = [
        subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True).stdout.split(" ", 1)
        for _ in range(2)
    ]
    assert [verb for verb, _ in told] == ["tuned", "found"]
    assert told[0][1] == told[1][1]


def test_a_function_may_return_nothing_and_call_ops(x: numpy.ndarray) -> None:
    out = numpy.empty_like(x)

    def negated(config: dict[str, int], x: numpy.ndarray) -> None:
        kiln.ops.neg(x, out=out, config={"BLOCK_SIZE": config["BLOCK"]})

    table = kiln.autotune(negated, x, configs=[{"BLOCK": 63}, {"BLOCK": 64}], budget_s=1, progress=False, record=False)
    assert table.chosen["config"] == {"BLOCK": 64}
    assert "63" in next(row["reason"] for row in table if row["outcome"] == "unlaunched")
    numpy.testing.assert_array_equal(out, -x)


def test_what_is_no_exception_ends_the_tuning(x: numpy.ndarray) -> None:
    def interrupted(config: dict[str, int]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kiln.autotune(interrupted, configs=[{"A": 1}], progress=False)


def test_ops_and_kernels_take_lists(x: numpy.ndarray) -> None:
    table = kiln.autotune("exp", x, configs=[{"BLOCK_SIZE": 256}], budget_s=BUDGET_S, progress=False)
    assert {row["config"]["BLOCK_SIZE"] for row in table} == {256, table.default["config"]["BLOCK_SIZE"]}
    assert kiln.resolve("exp", x).report.config_source == "tuned"

    kernel = kiln.Kernel(
        KERNEL,
        grid=lambda meta: kiln.cdiv(meta["n"], meta["BLOCK_SIZE"]),
        tunables={"BLOCK_SIZE": [32, 64, 128, 256], "num_warps": [1, 4]},
    )
    configs = [{"BLOCK_SIZE": 64}, {"BLOCK_SIZE": 128, "num_warps": 4}]
    table = kiln.autotune(kernel, x, numpy.empty_like(x), x.size, configs=configs, budget_s=BUDGET_S, progress=False)
    outcomes = {(row["config"]["BLOCK_SIZE"], row["config"]["num_warps"]): row["outcome"] for row in table}
    assert set(outcomes) == {(32, 1), (64, 1), (128, 4)}
    assert outcomes[64, 1] == "uncompiled"


def failing(config: dict[str, int]) -> None:
    raise ValueError(f"not {config['A']}")


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (ValueError, "configs is empty", lambda: kiln.autotune(failing, configs=[])),
        (TypeError, "configs: expected a list of dicts", lambda: kiln.autotune(failing, configs=5)),
        (TypeError, "configs: expected a list of dicts", lambda: kiln.autotune(failing, configs={"A": 1})),
        (TypeError, "tunable 'A': expected an integer, got str", lambda: kiln.autotune(failing, configs=[{"A": "x"}])),
        (ValueError, r"configs\[1\] is configs\[0\] again", lambda: kiln.autotune(failing, configs=[{"A": 1}] * 2)),
        (ValueError, r"configs\[1\] has 'B' and", lambda: kiln.autotune(failing, configs=[{"A": 1}, {"A": 1, "B": 2}])),
        (ValueError, "names of tunables are of letters", lambda: kiln.autotune(failing, configs=[{"A B": 1}])),
        (
            ValueError,
            "none of the 2 configs that were given can be used: A=1 unlaunched .ValueError: not 1.; A=2",
            lambda: kiln.autotune(failing, configs=[{"A": 1}, {"A": 2}]),
        ),
        (TypeError, "configs is missing: failing is a function", lambda: kiln.autotune(failing)),
        (ValueError, "budget_s=0", lambda: kiln.autotune(failing, configs=[{"A": 1}], budget_s=0)),
        (ValueError, "is for GPUs", lambda: kiln.autotune(failing, configs=[{"A": 1}], measuring="graph")),
        (ValueError, "configs is empty", lambda: kiln.autotune("neg", numpy.ones(3), configs=[])),
        (ValueError, "no tunable 'BLOCK'", lambda: kiln.autotune("neg", numpy.ones(3), configs=[{"BLOCK": 1}])),
        (ValueError, "cannot be 63", lambda: kiln.autotune("neg", numpy.ones(3), configs=[{"BLOCK_SIZE": 63}])),
        (TypeError, "is an op", lambda: kiln.tuned_config("neg", numpy.ones(3), configs=[{"BLOCK_SIZE": 64}])),
    ],
)
def test_bad_lists_are_refused(error: type[Exception], words: str, call: Any) -> None:
    refused(error, words, call)
