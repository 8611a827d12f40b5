#!/usr/bin/env python3
"""A decode step of attention whose keys and values live in host memory.

Each step picks the tokens that matter to its query, gathers the rows that are not on the GPU yet straight out of pinned
host memory (sparse_kv_gather), attends to them, and stores the new token's row in host memory (kv_scatter). Without a
GPU, or without torch to hold tensors there, the same step runs on the CPU over NumPy arrays.

    python examples/kv_offload.py [--tokens 4096] [--top 256] [--steps 16]
"""

import argparse
import time

import kiln
import numpy as np

HEADS, HEAD_DIM = 8, 64
KEY, VALUE = 0, 1


class Memory:
    """Where tensors live: NumPy arrays on the CPU, or torch tensors in pinned memory and on a GPU."""

    def __init__(self):
        try:
            import torch
        except ImportError:
            torch = None
        self.torch = torch if torch is not None and torch.cuda.is_available() else None
        self.name = self.torch.cuda.get_device_name() if self.torch else "the CPU"

    def on_host(self, array):
        return self.torch.from_numpy(array).pin_memory() if self.torch else array.copy()

    def on_device(self, array):
        return self.torch.from_numpy(array).cuda() if self.torch else array.copy()

    def to_numpy(self, tensor):
        return tensor.cpu().numpy() if self.torch else tensor

    def wait(self):
        if self.torch:
            self.torch.cuda.synchronize()


class ResidentRows:
    """Which token's row is in which slot of the cache on the device."""

    def __init__(self, slots):
        self.slot_of = {}
        self.free = list(range(slots))

    def admit(self, tokens):
        """Makes room for `tokens` and returns the pairs (token, slot) of those that must be fetched."""
        wanted = set(tokens)
        for token in [token for token in self.slot_of if token not in wanted]:
            self.free.append(self.slot_of.pop(token))
        missing = [token for token in tokens if token not in self.slot_of]
        for token in missing:
            self.slot_of[token] = self.free.pop()
        return [(token, self.slot_of[token]) for token in missing]


def attend(query, cache):
    """softmax(query @ keys^T / sqrt(d)) @ values; query [H, 1, D], cache [rows, 2, H, D]. The views copy nothing."""
    keys, values = cache[:, KEY].swapaxes(0, 1), cache[:, VALUE].swapaxes(0, 1)  # [H, rows, D]
    scores = kiln.ops.matmul(query, keys.swapaxes(1, 2), alpha=HEAD_DIM**-0.5)
    return kiln.ops.matmul(kiln.ops.softmax(scores, dim=-1), values)


def attend_in_numpy(query, rows):
    keys, values = rows[:, KEY].swapaxes(0, 1).astype(np.float64), rows[:, VALUE].swapaxes(0, 1).astype(np.float64)
    scores = query @ keys.swapaxes(1, 2) * HEAD_DIM**-0.5
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of context in host memory")
    parser.add_argument("--top", type=int, default=256, help="tokens that a step attends to")
    parser.add_argument("--steps", type=int, default=16)
    arguments = parser.parse_args()
    if not 0 < arguments.top <= arguments.tokens or arguments.steps < 1:
        parser.error("expected 0 < --top <= --tokens and --steps of at least 1")

    random = np.random.default_rng(7)
    memory = Memory()
    history = np.zeros((arguments.tokens + arguments.steps, 2, HEADS, HEAD_DIM), np.float32)
    history[: arguments.tokens] = random.standard_normal((arguments.tokens, 2, HEADS, HEAD_DIM), dtype=np.float32)
    host = memory.on_host(history)
    cache = memory.on_device(np.zeros((arguments.top, 2, HEADS, HEAD_DIM), np.float32))
    resident = ResidentRows(arguments.top)

    query = random.standard_normal((HEADS, 1, HEAD_DIM), dtype=np.float32)
    fetched, worst, times = [], 0.0, []
    for step in range(arguments.steps):
        known = arguments.tokens + step
        query = 0.9 * query + 0.4 * random.standard_normal(query.shape, dtype=np.float32)  # steps resemble one another
        importance = np.einsum("hd,nhd->n", query[:, 0], history[:known, KEY])
        chosen = np.argpartition(importance, -arguments.top)[-arguments.top :].tolist()
        pairs = resident.admit(chosen)
        fetched.append(len(pairs))
        new_row = random.standard_normal((1, 2, HEADS, HEAD_DIM), dtype=np.float32)
        device_query, device_row = memory.on_device(query), memory.on_device(new_row)
        indices = memory.on_device(np.array([pairs], np.int64).reshape(1, len(pairs), 2))
        new_index = memory.on_device(np.array([[[0, known]]], np.int64))
        memory.wait()

        started = time.perf_counter()
        kiln.ops.sparse_kv_gather(cache, host, indices)
        attended = attend(device_query, cache)
        kiln.ops.kv_scatter(host, device_row, new_index)
        memory.wait()
        times.append((time.perf_counter() - started) * 1e6)

        history[known] = new_row[0]
        worst = max(worst, float(np.abs(memory.to_numpy(attended) - attend_in_numpy(query, history[chosen])).max()))

    stored = np.array_equal(np.asarray(host), history)
    row_bytes = history[0].nbytes
    print(
        f"on {memory.name}: {arguments.steps} steps over {arguments.tokens} tokens, {arguments.top} attended to in each"
    )
    later = np.mean(fetched[1:] or [0])
    print(f"fetched {fetched[0]} rows of {row_bytes} bytes in the first step, {later:.0f} in a later one")
    print(f"step: {np.median(times):.0f} us (first {times[0]:.0f} us, which compiles)")
    print(f"largest difference from NumPy in f64: {worst:.1e}; stored rows: {'right' if stored else 'WRONG'}")
    if worst > 2e-3 or not stored:  # a GPU may multiply in tf32
        raise SystemExit("the results are wrong")


if __name__ == "__main__":
    main()
