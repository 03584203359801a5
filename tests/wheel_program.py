"""A program that uses the installed package: it trains a layer of sparse attention to find the greatest of its inputs."""
import pathlib
import sys

import torch

import fovea
from fovea import _library

place = pathlib.Path(_library.find())
if pathlib.Path(sys.prefix).resolve() not in place.parents:
    raise SystemExit(f"the library of {place}, not that of the environment")
torch.manual_seed(1)
q, k, v = (torch.randn(2, 3, 50, 16) for _ in range(3))
full = fovea.attention(q, k, v, "full", causal=True)
torch.testing.assert_close(full, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))

layer = fovea.Attention(16, 2, "topk(2)")
read = torch.nn.Linear(16, 1)
optimizer = torch.optim.Adam([*layer.parameters(), *read.parameters()], lr=1e-2)
losses = []
for step in range(60):
    x = torch.randn(32, 10, 16)
    loss = (read(layer(x))[..., 0].mean(1) - x[..., 0].amax(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
first, last = sum(losses[:10]), sum(losses[-10:])
if not last < first / 2:
    raise SystemExit(f"the loss fell from {first / 10:.3f} to {last / 10:.3f} only")
print(f"the installed package computes with {place.name}: loss {first / 10:.3f} to {last / 10:.3f}")
