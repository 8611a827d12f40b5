"""Attention of users' texts: examples/attention.hpp, and over pages by a table examples/paged_attention.hpp."""

import functools

import torch
import triton_attention
from gpu_timing import normal
from language_case import Call, Case
from language_row import Demand
from language_texts import text
from torch.nn.attention import SDPBackend, sdpa_kernel

LENGTHS = (1024, 2048, 4096, 8192, 16384)
TOKENS, WIDTH = 16384, 2048  # of all requests together, and of all heads
LEAST = {"triton": 1.10, "library": 0.95}  # the easier of the two
LEAST_AT_LONGEST = {"library": 0.90}  # with heads of 128
BACKENDS = {"library cudnn": SDPBackend.CUDNN_ATTENTION, "library flash": SDPBackend.FLASH_ATTENTION}
# Probabilities are rounded to 16 bits before they are multiplied: errors of so many deviations are allowed.
DEVIATIONS = 8
REQUESTS, PAGED_LENGTH, PAGE, QUERY_HEADS, HEADS, HEAD_SIZE = 64, 4096, 16, 32, 8, 128


def attend(q, k, v, is_causal):
    """Attention in double precision and what may be off, for one head: q [queries, D], k and v [keys, D]."""
    scores = (q.double() @ k.double().T).mul_(q.shape[1] ** -0.5)
    if is_causal:
        scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1), -torch.inf)
    p = torch.softmax(scores, 1)
    del scores
    exact = p @ v.double()
    allowed = (p.square_() @ v.double().square()).sqrt_().mul_(DEVIATIONS * 2**-9)
    return exact, allowed.add_(exact.abs() * 2**-8).add_(1e-6)


def errors_by_head(heads):
    """A function of a result: its largest error, against `heads()`, which gives exact results and what is allowed."""
    made = []

    def error(result):
        if not made:
            made.extend(torch.stack(parts) for parts in zip(*heads()))
        exact, allowed = made
        return result.reshape(exact.shape).double().sub_(exact).abs_().div_(allowed).max().item()

    return error


def library(backend, q, k, v, is_causal):
    with sdpa_kernel(backend):
        return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=is_causal)[0]


def attention_case(name, heads, length, head_size, is_causal, demands, fa3=None):
    q, k, v = (normal((heads, length, head_size), torch.bfloat16) for _ in range(3))
    out = torch.empty_like(q)
    peers = {name: functools.partial(library, backend, q, k, v, is_causal) for name, backend in BACKENDS.items()}
    if fa3 is not None:
        peers["library fa3"] = fa3.attention(q, k, v, is_causal)
    return Case(
        f"attention {name}",
        {"dtype": "bf16", "heads": heads, "length": length, "head_size": head_size, "causal": is_causal},
        Call(text("attention").attention, [q, k, v], {"causal": is_causal}),
        out,
        error=errors_by_head(lambda: [attend(q[h], k[h], v[h], is_causal) for h in range(heads)]),
        flops=4 * heads * length**2 * head_size / (2 if is_causal else 1),
        bytes=4 * q.nbytes,
        demands=demands,
        peers=peers,
        triton=lambda measure: triton_attention.tuned(measure, q, k, v, out, is_causal),
    )


def attention_cases(fa3=None):
    for head_size in (64, 128):
        for is_causal in (False, True):
            for length in LENGTHS:
                demands = [Demand(LEAST)]
                if head_size == 128 and length == max(LENGTHS):
                    demands.append(Demand(LEAST_AT_LONGEST))
                heads = TOKENS // length * WIDTH // head_size
                name = f"{length} x {head_size}{', causal' if is_causal else ''}"
                yield attention_case(name, heads, length, head_size, is_causal, demands, fa3)


def drawn_cases(shapes):
    for name, (heads, length, head_size, is_causal) in shapes.items():
        yield attention_case(name, heads, length, head_size, is_causal, [])


def paged_case(fa3=None):
    """One query for each of 32 heads, which share 8 heads of keys and values in pages drawn from twice as many; held to what a copy of as many bytes takes."""
    pages = REQUESTS * PAGED_LENGTH // PAGE
    q = normal((REQUESTS, QUERY_HEADS, HEAD_SIZE), torch.bfloat16)
    keys, values = (normal((2 * pages, PAGE, HEADS, HEAD_SIZE), torch.bfloat16) for _ in range(2))
    table = torch.randperm(2 * pages, device="cuda")[:pages].int().view(REQUESTS, -1)
    lengths = torch.full((REQUESTS,), PAGED_LENGTH, device="cuda", dtype=torch.int32)
    out = torch.empty_like(q)
    entries = pages * PAGE * HEADS * HEAD_SIZE
    moved = 2 * entries * q.element_size() + table.nbytes + lengths.nbytes + 2 * q.nbytes

    def heads():
        for request in range(REQUESTS):
            lines = table[request].long()
            k, v = (cache[lines].reshape(-1, HEADS, HEAD_SIZE) for cache in (keys, values))
            group = QUERY_HEADS // HEADS
            for head in range(HEADS):
                yield attend(q[request, head * group : (head + 1) * group], k[:, head], v[:, head], False)

    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return Case(
        f"paged attention, {REQUESTS} of {PAGED_LENGTH}",
        {"dtype": "bf16", "heads": HEADS, "length": PAGED_LENGTH, "head_size": HEAD_SIZE, "page": PAGE},
        Call(text("paged_attention").paged_attention, [q, keys, values, table, lengths]),
        out,
        error=errors_by_head(heads),
        flops=4 * entries * QUERY_HEADS // HEADS,
        bytes=moved,
        demands=[Demand({"copy": 0.85})],
        peers={} if fa3 is None else {"library fa3": fa3.paged(q, keys, values, table, lengths)},
        bounds={"copy of as many bytes": lambda: target.copy_(source)},
        unit="gb_s",
    )
