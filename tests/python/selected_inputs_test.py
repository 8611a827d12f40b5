"""Inputs whose values choose memory: what measuring leaves alone, what reports say, what is refused."""

from __future__ import annotations

from typing import Any

import kiln
import numpy
import pytest

LAYERS, TOKENS, HEADS, WIDTH, BLOCKS, PAGE = 2, 64, 2, 64, 8, 16


class LayerCaches:
    """A call of kv_append_layers over caches of zeros."""

    def __init__(self, slots: Any = None) -> None:
        shape = (BLOCKS, PAGE, HEADS, WIDTH)
        self.caches = [numpy.zeros(shape, numpy.float32) for _ in range(2 * LAYERS)]
        addresses = numpy.array([cache.ctypes.data for cache in self.caches], numpy.int64)
        self.tables = (addresses[:LAYERS].copy(), addresses[LAYERS:].copy())
        self.key = numpy.ones((LAYERS, TOKENS, HEADS, WIDTH), numpy.float32)
        self.slots = numpy.arange(TOKENS) if slots is None else slots

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, int]]:
        return (self.key, self.key, *self.tables, self.slots), {"num_blocks": BLOCKS, "page": PAGE}

    def written(self) -> int:
        return sum(int(numpy.count_nonzero(cache)) for cache in self.caches)


def test_measuring_writes_no_cache_of_the_callers() -> None:
    call = LayerCaches()
    tensors, attributes = call.arguments()
    kiln.autotune("kv_append_layers", *tensors, budget_s=0.5, progress=False, **attributes)
    assert call.written() == 0
    kiln.benchmark("kv_append_layers", *tensors, samples=2, against="reference", **attributes)
    assert call.written() == 0
    kiln.ops.kv_append_layers(*tensors, **attributes)
    assert call.written() == 2 * call.key.size


@pytest.mark.parametrize("table", [0, 1])
@pytest.mark.parametrize("check_bounds", [False, True])
def test_a_null_address_is_refused(table: int, check_bounds: bool) -> None:
    call = LayerCaches()
    call.tables[table][1] = 0
    tensors, attributes = call.arguments()
    with pytest.raises(ValueError, match=r"(key|value)_caches'\[1\] is a null address"):
        kiln.ops.kv_append_layers(*tensors, check_bounds=check_bounds, **attributes)
    assert call.written() == 0
    for measure in (kiln.autotune, kiln.benchmark, kiln.debug_op):
        with pytest.raises(ValueError, match="null address"):
            measure("kv_append_layers", *tensors, **attributes)


def test_reports_name_the_share_that_is_skipped() -> None:
    x = numpy.ones((10, 4), numpy.float32)
    index = numpy.array([0, 9, 10, -1])
    timed = kiln.benchmark("index_select", x, index, dim=0, samples=2)
    assert timed.skipped_share == 0.5
    assert "50.0% of the work skipped" in str(timed)
    assert kiln.benchmark("index_select", x, index[:2], dim=0, samples=2).skipped_share == 0
    assert kiln.benchmark("add", x, x, samples=2).skipped_share is None
    table = kiln.autotune("index_select", x, index, dim=0, budget_s=0.3, progress=False)
    assert table.report["skipped_share"] == 0.5
    assert "50.0% of the work: 2 of 4 entries of 'index'" in str(table)
    assert "50.0% of the work: 2 of 4 entries of 'index'" in str(kiln.debug_op("index_select", x, index, dim=0))


def test_what_lies_at_addresses_is_checked() -> None:
    report = kiln.check("kv_append_layers", random_examples=3)
    assert report.ok, report
    assert report[0].outputs[0].name == "key_caches[0]"
    assert report[0].outputs[0].num_elements > 0


def test_spoiled_inputs_stay_legal() -> None:
    spec = kiln.ops.index_select.spec
    x, index = numpy.empty((50, 2), numpy.float32), numpy.empty(4000, numpy.int64)
    spec.fill_inputs([x, index], {"dim": 0})
    assert (index.min(), index.max()) == (0, 49)
    for seed in range(20):
        spec.fill_inputs([x, index], {"dim": 0}, seed=seed, spoiled=True)
        if index.min() < 0:
            break
    assert (index.min(), index.max()) == (-2, 51)
    assert spec.inputs[1].selects and not spec.inputs[0].selects
