"""A small engine's decode loop over paged caches, by slices and cats, and with one launch for each thing that it does."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import kiln


class Engine:
    """Requests of several lengths, the pages that hold their keys and values, and the tokens that are still to come.

    Every way to decode starts from the same caches and is given the same queries, keys and values, so that what it
    computes can be compared.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.device, self.steps, self.page = options.device, options.steps, options.page
        self.layers, self.requests, self.heads, self.dim = options.layers, options.bs, options.heads, options.dim
        random = np.random.default_rng(7)
        self.longest = options.context + options.steps
        pages = -(-self.longest // self.page)
        self.blocks = self.requests * pages
        self.table = random.permutation(self.blocks).astype(np.int32).reshape(self.requests, pages)
        self.lengths = random.integers(options.context // 2, options.context, self.requests, endpoint=True)
        cache = (self.layers, self.blocks, self.page, self.heads, self.dim)
        self.before = [random.standard_normal(cache, dtype=np.float32) for _ in range(2)]
        token = (self.steps, 3, self.layers, self.requests, self.heads, self.dim)  # 3: query, key, value
        self.tokens = random.standard_normal(token, dtype=np.float32)
        self.is_profiled = False
        self.device_state()

    def device_state(self) -> None:
        """What the launches take: all of it is on the device before the first step."""
        place = self.place
        self.caches = [[place(layer) for layer in side] for side in self.before]
        self.kept = [[place(layer) for layer in side] for side in self.before]
        self.addresses = [place(np.array([layer.data_ptr for layer in side], np.int64)) for side in self.caches]
        self.on_device = [[place(part) for part in step] for step in self.tokens]
        # [B, H, D] is a token's; attention wants to know which dimension is the length.
        self.batched = [[place(layer[:, :, None]) for layer in step[0]] for step in self.tokens]
        self.paged = [[place(layer[:, None]) for layer in step[0]] for step in self.tokens]
        # Kept from step to step: making memory takes longer than filling it.
        batch = (self.requests, self.heads, self.longest, self.dim)
        self.batches = [kiln.empty(batch, "f32", self.device) for _ in range(2)]
        self.device_table = place(self.table)
        self.slots = [place(self.slots_of(step)) for step in range(self.steps)]
        self.seq_lens = [place((self.lengths + step + 1).astype(np.int32)) for step in range(self.steps)]
        seen = [np.arange(self.longest) < (self.lengths + step + 1)[:, None] for step in range(self.steps)]
        self.masks = [place(mask[:, None, None, :]) for mask in seen]

    def place(self, array: Any) -> kiln.Tensor:
        return kiln.to_device(np.ascontiguousarray(array), self.device)

    def slots_of(self, step: int) -> Any:
        """Where the tokens of a step go, one for each request."""
        at = self.lengths + step
        return self.table[np.arange(self.requests), at // self.page].astype(np.int64) * self.page + at % self.page

    def reset(self) -> None:
        for side, kept in zip(self.caches, self.kept):
            for cache, copy in zip(side, kept):
                kiln.copy_async(cache, copy)
        kiln.synchronize()

    @contextlib.contextmanager
    def region(self, name: str) -> Iterator[None]:
        """A region of a profile, which then ends when its work on the device does."""
        if not self.is_profiled:
            yield
            return
        with kiln.profile_region(name):
            yield
            kiln.synchronize()

    def ways(self) -> dict[str, Callable[[int], list[Any]] | str]:
        """By name: a step, which returns the attention of every layer; or why it cannot be had."""
        launches: dict[str, Callable[[int], list[Any]] | str] = {
            "gather, attention, append: a launch each": self.with_launches,
            "attention over pages": self.over_pages,
        }
        try:
            sliced: Callable[[int], list[Any]] | str = Sliced(self).step
        except ImportError:
            sliced = "on a GPU slices and cats are torch's, which is not installed: pip install torch"
        return {"slices and cats": sliced, **launches}

    def append(self, step: int) -> None:
        """The tokens of all layers and all requests, in one launch."""
        _, keys, values = self.on_device[step]
        key_caches, value_caches = self.addresses
        with self.region("append"):
            kiln.ops.kv_append_layers(
                keys, values, key_caches, value_caches, self.slots[step], num_blocks=self.blocks, page=self.page
            )

    def with_launches(self, step: int) -> list[Any]:
        self.append(step)
        results = []
        for layer in range(self.layers):
            with self.region("gather"):
                for side, batch in zip(self.caches, self.batches):
                    kiln.ops.kv_gather_paged(
                        side[layer], self.device_table, self.seq_lens[step], max_len=self.longest, out=batch
                    )
            with self.region("attention"):
                (keys, values), query, mask = self.batches, self.batched[step][layer], self.masks[step]
                results.append(kiln.ops.attention(query, keys, values, mask, layout="BHSD"))
        return results

    def over_pages(self, step: int) -> list[Any]:
        self.append(step)
        results = []
        for layer in range(self.layers):
            keys, values = (side[layer] for side in self.caches)
            with self.region("attention"):
                query = self.paged[step][layer]
                results.append(kiln.ops.attention_paged(query, keys, values, self.device_table, self.seq_lens[step]))
        return results


class Sliced:
    """The loop as it is first written: for every layer and every request a slice for each page, a cat, and a product."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.torch: Any = None
        view: Callable[[kiln.Tensor], Any] = kiln.Tensor.numpy
        if engine.device != "cpu":
            import torch

            self.torch, view = torch, torch.from_dlpack
        self.caches = [[view(cache) for cache in side] for side in engine.caches]
        self.tokens = [[view(part) for part in step] for step in engine.on_device]

    def step(self, step: int) -> list[Any]:
        engine = self.engine
        queries, *new = self.tokens[step]
        with engine.region("append"):
            for layer in range(engine.layers):
                for request, slot in enumerate(engine.slots_of(step).tolist()):
                    for side, tokens in zip(self.caches, new):
                        side[layer][slot // engine.page, slot % engine.page] = tokens[layer, request]
        results = []
        for layer in range(engine.layers):
            with engine.region("gather"):
                gathered = [self.rows(layer, request, step) for request in range(engine.requests)]
            with engine.region("attention"):
                attended = [self.attend(queries[layer, i], *rows) for i, rows in enumerate(gathered)]
                results.append(self.torch.stack(attended) if self.torch else np.stack(attended))
        return results

    def rows(self, layer: int, request: int, step: int) -> list[Any]:
        """Keys and values of one request, [length, H, D] each."""
        length = int(self.engine.lengths[request]) + step + 1
        pages = self.engine.table[request, : -(-length // self.engine.page)].tolist()
        cat = self.torch.cat if self.torch else np.concatenate
        return [cat([side[layer][page] for page in pages])[:length] for side in self.caches]

    def attend(self, query: Any, keys: Any, values: Any) -> Any:
        einsum = self.torch.einsum if self.torch else np.einsum
        scores = einsum("hd,thd->ht", query, keys) / self.engine.dim**0.5
        if self.torch:
            weights = self.torch.softmax(scores, dim=-1)
        else:
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
        return einsum("ht,thd->hd", weights, values)
