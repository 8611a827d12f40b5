"""Values of the experiments' options, read from text."""

from __future__ import annotations

import argparse
from collections.abc import Callable

SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text: str) -> int:
    """A number above 0: 4096, 64K, 16M (of 1024 each)."""
    digits, suffix = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not (digits.isascii() and digits.isdigit()) or suffix not in SUFFIXES or int(digits) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0, such as 4096, 64K or 16M")
    value = int(digits) * SUFFIXES[suffix]
    if value >= 1 << 62:
        raise argparse.ArgumentTypeError(f"'{text}' is more than there can be")
    return value


def count(text: str) -> int:
    """A number from 0 on."""
    return 0 if text == "0" else size(text)


def positive(text: str) -> float:
    """A number above 0 with a fraction."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return value


def several(of: Callable[[str], float]) -> Callable[[str], list[float]]:
    """Values with commas between them."""

    def read(text: str) -> list[float]:
        return [of(part.strip()) for part in text.split(",")]

    return read


def sizes(text: str) -> list[int]:
    """Sizes with commas between them, or a range of powers of two: 1K:16M."""
    if ":" not in text:
        return [size(part.strip()) for part in text.split(",")]
    first, _, last = text.partition(":")
    values = [size(first)]
    end = size(last)
    if end < values[0]:
        raise argparse.ArgumentTypeError(f"'{text}' ends before it begins")
    while values[-1] * 2 <= end:
        values.append(values[-1] * 2)
    return values


def shape(text: str) -> tuple[int, ...]:
    """Extents with x between them: 1x16800x1536."""
    return tuple(size(part) for part in text.lower().split("x"))
