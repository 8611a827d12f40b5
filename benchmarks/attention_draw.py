"""Shapes of attention drawn from a seed: numbers of requests, heads and tokens as inference engines meet them."""

import random

HEAD_SIZES = (64, 64, 96, 128, 128, 128, 192, 256)
QUERY_HEADS_OF_ONE = (1, 1, 2, 4, 8)
MOST_FLOPS = 4 * 2048 * 16384**2
MOST_CACHE_BYTES = 8 << 30


def _heads(draw):
    groups, keys = draw.choice(QUERY_HEADS_OF_ONE), draw.choice((1, 2, 3, 4, 8, 16))
    return groups * keys, keys


def prefills(seed, count):
    """(batch, length, query heads, heads, head size, is causal); lengths of 32 to 16384, whole multiples of 128 in every second one."""
    draw, drawn = random.Random(seed), []
    while len(drawn) < count:
        length = round(2 ** draw.uniform(5, 14))
        if len(drawn) % 2 == 0:
            length = max(length // 128, 1) * 128
        batch = round(2 ** draw.uniform(0, 5))
        queries, keys = _heads(draw)
        size, is_causal = draw.choice(HEAD_SIZES), draw.random() < 0.6
        if 4 * batch * queries * size * length**2 <= MOST_FLOPS:
            drawn.append((batch, length, queries, keys, size, is_causal))
    return drawn


def decodes(seed, count):
    """(lengths, query heads, heads, head size, page): lengths of requests, all alike in every third one."""
    draw, drawn = random.Random(seed + 1), []
    while len(drawn) < count:
        batch, longest = round(2 ** draw.uniform(0, 8)), round(2 ** draw.uniform(6, 16))
        lengths = [longest if len(drawn) % 3 == 0 else draw.randint(1, longest) for _ in range(batch)]
        queries, keys = _heads(draw)
        size, page = draw.choice((64, 128, 128, 256)), draw.choice((16, 16, 32, 64, 128))
        # Both caches, with twice as many pages as are used.
        if 8 * (sum(lengths) + batch * page) * keys * size <= MOST_CACHE_BYTES:
            drawn.append((lengths, queries, keys, size, page))
    return drawn
