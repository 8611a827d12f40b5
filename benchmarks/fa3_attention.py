"""FlashAttention-3 as a peer, by the library inside the vllm wheel (vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so of 0.22.0, for torch 2.11 and CUDA 13)."""

import torch


class FlashAttention3:
    def __init__(self, path):
        torch.ops.load_library(str(path))
        self.forward = torch.ops._vllm_fa3_C.fwd

    def _call(self, q, k, v, *, starts=None, key_starts=None, queries, keys, used=None, table=None, is_causal):
        return self.forward(
            *(q, k, v, None, None, None, None, starts, key_starts, None, None, used, queries, keys, table),
            *(None,) * 8,  # left padding, rotary embedding, scales of fp8
            *(q.shape[-1] ** -0.5, is_causal, -1, -1, 0.0, True, None, 0, None, 0, None, 1, 0, None),
        )[0]

    def attention(self, q, k, v, is_causal):
        """A call over copies of q, k and v [heads, length, D] in the order that it takes, [length, heads, D]."""
        run = self.sequences(*(x.transpose(0, 1).contiguous()[None] for x in (q, k, v)), is_causal)
        return lambda: run()[0].transpose(0, 1)

    def sequences(self, q, k, v, is_causal):
        """A call over q, k and v [batch, length, heads, D], whose results have q's shape."""
        batch, length = q.shape[:2]
        starts = torch.arange(batch + 1, device="cuda", dtype=torch.int32) * length
        packed = [x.flatten(0, 1) for x in (q, k, v)]
        return lambda: self._call(
            *packed, starts=starts, key_starts=starts, queries=length, keys=length, is_causal=is_causal
        ).view(q.shape)

    def paged(self, q, keys, values, table, lengths):
        """A call for one query of each request, as examples/paged_attention.hpp takes them."""
        starts = torch.arange(q.shape[0] + 1, device="cuda", dtype=torch.int32)
        longest = table.shape[1] * keys.shape[1]
        return lambda: self._call(
            q, keys, values, starts=starts, queries=1, keys=longest, used=lengths, table=table, is_causal=True
        )
