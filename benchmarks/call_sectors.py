"""How many sectors of memory a drawn call touches on a GPU, whose memory is read and written by sectors of 32 bytes. Needs no array library."""

import math

from drawn_call import ITEM_BYTES, DrawnInput

SECTOR_BYTES = 32


def dense_strides(shape):
    return [math.prod(shape[place + 1 :]) for place in range(len(shape))]


def placed(drawn):
    """Strides and offset of a view, in elements of the array that holds it."""
    strides = dense_strides(drawn.stored_shape)
    if drawn.layout == "transposed":
        strides[-2:] = strides[:-3:-1]
    elif drawn.layout == "every second":
        strides[-1] = 2
    return strides, strides[-2] + 3 * strides[-1] if drawn.layout == "inner" else 0


def places_within(step_bytes, extent, before):
    """{place within a sector: how many} of `extent` steps from each of the places `before`."""
    period = SECTOR_BYTES // math.gcd(step_bytes, SECTOR_BYTES)
    counts = {}
    for place, count in before.items():
        for step in range(min(extent, period)):
            reached = (place + step * step_bytes) % SECTOR_BYTES
            counts[reached] = counts.get(reached, 0) + count * -(-(extent - step) // period)
    return counts


def sectors_of(drawn):
    """Sectors of a view of an array that begins at a sector. Elements less than a sector apart are one run."""
    item = ITEM_BYTES[drawn.dtype]
    strides, offset = placed(drawn)
    steps = sorted((stride * item, extent) for stride, extent in zip(strides, drawn.shape) if extent > 1)
    run, starts = item, {offset * item % SECTOR_BYTES: 1}
    for step, extent in steps:
        if step < run + SECTOR_BYTES and sum(starts.values()) == 1:
            run += step * (extent - 1)
        else:
            starts = places_within(step, extent, starts)
    return sum(count * -(-(place + run) // SECTOR_BYTES) for place, count in starts.items())


def distinct(draws, choices):
    """How many of the choices so many random draws are expected to hit."""
    return choices * -math.expm1(draws * math.log1p(-1 / choices)) if choices > 1 else 1


def selected_sectors(call):
    """Of the data that gather and index_select are expected to read: a random index hits a sector of its row or column."""
    x, _ = call.inputs
    rows, columns = x.shape
    in_row = -(-columns * ITEM_BYTES[x.dtype] // SECTOR_BYTES)
    taken = call.out_shape[call.attributes["dim"]]
    if call.attributes["dim"] == 1:
        return rows * distinct(taken, in_row)
    if call.op == "index_select":
        return distinct(taken, rows) * in_row
    return in_row * distinct(taken * columns / in_row, rows)


def call_sectors(call):
    """Read and written, each once."""
    out = sectors_of(DrawnInput(call.out_shape, call.out_dtype))
    if call.op == "fill":
        return out
    if call.op in ("gather", "index_select"):
        return out + sectors_of(call.inputs[1]) + selected_sectors(call)
    return out + sum(map(sectors_of, call.inputs))
