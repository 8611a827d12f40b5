"""Kiln's own ops of attention beside torch's backends and FlashAttention-3: whole sequences, and a token of each request over pages."""

import dataclasses
import functools
import itertools

import attention_draw
import torch
from gpu_timing import normal
from language_attention import BACKENDS, attend
from language_case import Call, Case
from language_row import Demand
from torch.nn.attention import sdpa_kernel

TOKENS = 16384  # of all requests together, in the rows that have many
MOST_COMPARED = 12  # heads of a result
PAGE, QUERY_HEADS, HEADS, HEAD_SIZE = 16, 32, 8, 128
LATENT, ROTARY = 512, 64
# What FlashAttention-3 took on an H200, and what Kiln may take, in microseconds: (requests, tokens of each).
DECODES_US = {
    (1, 1024): (17.0, 9),
    (1, 4096): (20.0, 11),
    (1, 32768): (53.8, 45),
    (1, 131072): (148, 140),
    (8, 1024): (24.4, 12),
    (8, 4096): (53.0, 40),
    (8, 32768): (265, 262),
    (32, 4096): (143, 138),
    (64, 4096): (267, 262),
    (128, 2048): (271, 265),
    (256, 512): (156, 142),
}
RAGGED_REQUESTS, RAGGED_LONGEST = 64, 8192
FP8 = torch.float8_e4m3fn
# Over the same calls of 16 bits: of caches from 8 x 4096 tokens on, and of whole sequences.
FP8_TOKENS, FP8_DECODE, FP8_PREFILL = 8 * 4096, 1 / 0.6, 1.3


def spread(count, most):
    """At most so many places of 0 to count - 1, first and last among them."""
    return sorted({i * (count - 1) // (most - 1) for i in range(most)})


def errors_at(places, part, exact):
    """A function of a result: its largest error over `part(result, place)` against `exact(place)`, which gives exact numbers and what is allowed."""
    exact = functools.cache(exact)

    def error(result):
        found = 0.0
        for place in places:
            expected, allowed = exact(place)
            # NaN of what was not written compares as no number does.
            found = max(
                found, part(result, place).double().sub(expected).abs_().div_(allowed).nan_to_num_(1e9).max().item()
            )
        return found

    return error


def library(backend, q, k, v, is_causal):
    """torch's, of [batch, length, heads, head size] as Kiln has it."""
    with sdpa_kernel(backend):
        return torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in (q, k, v)), is_causal=is_causal, enable_gqa=q.shape[2] != k.shape[2]
        ).transpose(1, 2)


def beside(op, inputs, attributes, is_tuned):
    return {"kiln tuned": Call(op, inputs, attributes)} if is_tuned else {}


def held_by_fp8(shape, dtype):
    """Random numbers that fp8 holds too."""
    return normal(shape, torch.float32).to(FP8).to(dtype)


def of_fp8(case, which, least, moved):
    """The case with the inputs `which` in fp8, beside itself with 16 bits, which is as exact."""
    inputs = [x.to(FP8) if place in which else x for place, x in enumerate(case.call.inputs)]
    return dataclasses.replace(
        case,
        what={**case.what, "dtype": "fp8"},
        call=dataclasses.replace(case.call, inputs=inputs),
        bytes=moved,
        demands=[Demand({"kiln bf16": least})] if least else [],
        bounds={},
        beside={"kiln bf16": case.call},
    )


def prefill_case(batch, length, queries, heads, size, is_causal, least=1.0, fa3=None, is_tuned=False, draw=normal):
    shape = (batch, length)
    q, k, v = (draw((*shape, count, size), torch.bfloat16) for count in (queries, heads, heads))
    peers = {name: functools.partial(library, backend, q, k, v, is_causal) for name, backend in BACKENDS.items()}
    if fa3 is not None:
        peers["library fa3"] = fa3.sequences(q, k, v, is_causal)
    group = queries // heads
    attributes = {"causal": "bottom_right" if is_causal else "none"}
    places = [divmod(place, queries) for place in spread(batch * queries, MOST_COMPARED)]
    return Case(
        f"{batch} x {length}, {queries}/{heads} x {size}{', causal' if is_causal else ''}",
        {"dtype": "bf16", "heads": queries, "length": length, "head_size": size, "causal": is_causal},
        Call("attention", [q, k, v], attributes, is_tuned=False),
        torch.empty_like(q),
        error=errors_at(
            places,
            lambda result, place: result[place[0], :, place[1]],
            lambda place: attend(
                q[place[0], :, place[1]], *(x[place[0], :, place[1] // group] for x in (k, v)), is_causal
            ),
        ),
        flops=4 * batch * queries * length**2 * size / (2 if is_causal else 1),
        bytes=2 * (q.nbytes + k.nbytes),
        demands=[Demand({"library": least})],
        peers=peers,
        beside=beside("attention", [q, k, v], attributes, is_tuned),
    )


def table_of(lengths, page):
    """A table of pages drawn from twice as many, lengths as a tensor, and each request's number of pages."""
    counts = [-(-length // page) for length in lengths]
    order = torch.randperm(2 * sum(counts), device="cuda").int()
    table = torch.zeros((len(lengths), max(counts)), dtype=torch.int32, device="cuda")
    for request, (end, count) in enumerate(zip(itertools.accumulate(counts), counts)):
        table[request, :count] = order[end - count : end]
    return table, torch.tensor(lengths, dtype=torch.int32, device="cuda"), counts


def copy_of(moved):
    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def decode_case(name, lengths, queries, heads, size, page, least=None, fa3=None, is_tuned=False, draw=normal):
    """One query of each request over pages drawn from twice as many. `least`: what its speed over others' is held to."""
    table, used, counts = table_of(lengths, page)
    q = normal((len(lengths), 1, queries, size), torch.bfloat16)
    caches = [draw((2 * sum(counts), page, heads, size), torch.bfloat16) for _ in range(2)]
    inputs = [q, *caches, table, used]
    entries = sum(lengths) * heads * size
    moved = 4 * entries + table.nbytes + used.nbytes + 2 * q.nbytes
    group = queries // heads

    def exact(place):
        request, head = place
        lines = table[request, : counts[request]].long()
        k, v = (cache[lines, :, head].reshape(-1, size)[: lengths[request]] for cache in caches)
        return attend(q[request, 0, head * group : (head + 1) * group], k, v, False)

    return Case(
        name,
        {"dtype": "bf16", "heads": queries, "length": max(lengths), "head_size": size, "page": page},
        Call("attention_paged", inputs, is_tuned=False),
        torch.empty_like(q),
        error=errors_at(
            [divmod(place, heads) for place in spread(len(lengths) * heads, MOST_COMPARED)],
            lambda result, place: result.view(q.shape)[place[0], 0, place[1] * group : (place[1] + 1) * group],
            exact,
        ),
        flops=4 * entries * group,
        bytes=moved,
        demands=[Demand(least)] if least else [],
        peers={} if fa3 is None else {"library fa3": fa3.paged(q[:, 0], *caches, table, used)},
        bounds={"copy of as many bytes": copy_of(moved)},
        beside=beside("attention_paged", inputs, {}, is_tuned),
        unit="gb_s",
    )


def prefill_cases(fa3, is_tuned):
    for size, heads in ((64, 32), (128, 16), (256, 8)):
        for length in (1024, 4096, 16384):
            for is_causal in (False, True):
                yield prefill_case(TOKENS // length, length, heads, heads, size, is_causal, 1.0, fa3, is_tuned)
    for length in (2048, 8192, 32768):
        yield prefill_case(1, length, 64, 8, 128, True, 1.0, fa3, is_tuned)
    yield prefill_case(1, 1024, 9, 3, 64, True, 1.5, fa3, is_tuned)


def decode_cases(fa3, is_tuned):
    for (requests, length), (theirs_us, ours_us) in DECODES_US.items():
        yield decode_case(
            f"{requests} of {length}",
            [length] * requests,
            *(QUERY_HEADS, HEADS, HEAD_SIZE, PAGE),
            {"library fa3": theirs_us / ours_us},
            *(fa3, is_tuned),
        )
    lengths = torch.randint(1, RAGGED_LONGEST + 1, (RAGGED_REQUESTS,)).tolist()
    yield decode_case("ragged", lengths, QUERY_HEADS, HEADS, HEAD_SIZE, PAGE, {"copy": 0.9}, fa3, is_tuned)


def latent_case(requests, length, heads, page, least):
    """DeepSeek's latent attention, weights absorbed: a token's 512 + 64 numbers are the key and the first 512 the value of all heads."""
    table, used, counts = table_of([length] * requests, page)
    q_nope, q_pe = (normal((requests, 1, heads, size), torch.bfloat16) for size in (LATENT, ROTARY))
    cache = normal((2 * sum(counts), page, LATENT + ROTARY), torch.bfloat16)
    inputs = [q_nope, q_pe, cache, table, used]
    tokens = requests * length

    def exact(request):
        keys = cache[table[request].long()].reshape(-1, LATENT + ROTARY)[:length]
        return attend(torch.cat((q_nope, q_pe), 3)[request, 0], keys, keys[:, :LATENT], False)

    moved = 2 * tokens * (LATENT + ROTARY) + table.nbytes + 2 * q_nope.nbytes + q_pe.nbytes
    return Case(
        f"latent, {requests} of {length}, {heads} heads, pages of {page}",
        {"dtype": "bf16", "heads": heads, "length": length, "page": page},
        Call("mla_decode", inputs, {"scale": (LATENT + ROTARY) ** -0.5}, is_tuned=False),
        torch.empty_like(q_nope),
        error=errors_at(spread(requests, 4), lambda result, request: result[request, 0], exact),
        flops=2 * tokens * heads * (2 * LATENT + ROTARY),
        bytes=moved,
        demands=[Demand(least)] if least else [],
        bounds={"copy of as many bytes": copy_of(moved)},
        unit="gb_s",
    )


def latent_cases():
    for heads, requests, least in ((16, 128, {"copy": 0.85}), (16, 8, {}), (128, 128, {}), (128, 16, {})):
        yield latent_case(requests, 4096, heads, 64, least)


def fp8_cases():
    """Queries, keys and values of whole sequences, and caches alone of decoding."""
    for is_causal in (False, True):
        case = prefill_case(1, 8192, 64, 8, 128, is_causal, draw=held_by_fp8)
        yield of_fp8(dataclasses.replace(case, peers={}), range(3), FP8_PREFILL, case.bytes / 2)
    for requests, length in DECODES_US:
        if (tokens := requests * length) < 8 * 1024:
            continue
        case = decode_case(
            f"{requests} of {length}", [length] * requests, *(QUERY_HEADS, HEADS, HEAD_SIZE, PAGE), draw=held_by_fp8
        )
        least = FP8_DECODE if tokens >= FP8_TOKENS else None
        yield of_fp8(case, (1, 2), least, case.bytes - 2 * tokens * HEADS * HEAD_SIZE)


def drawn_cases(seed, count, fa3, is_tuned):
    """Two of three are whole sequences."""
    decodes = -(-count // 3)
    for shape in attention_draw.prefills(seed, count - decodes):
        yield prefill_case(*shape, 0.8, fa3, is_tuned)
    for lengths, *shape in attention_draw.decodes(seed, decodes):
        name = f"{len(lengths)} of up to {max(lengths)}, {shape[0]}/{shape[1]} x {shape[2]}, pages of {shape[3]}"
        yield decode_case(name, lengths, *shape, {"library fa3": 0.8}, fa3, is_tuned)
