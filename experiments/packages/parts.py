"""What the models of this folder share."""

import torch
from torch import nn
from torch.nn import functional as F


def parameter(*shape):
    """A weight that is loaded later."""
    return nn.Parameter(torch.zeros(shape), requires_grad=False)


def norm(x, weight):
    """RMS norm with eps 1e-6 (docs/model.md, Whole model)."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def back(x, steps, place):
    """x [B, T, channels] of the token `steps` earlier, 0 where that is not in the segment."""
    if steps == 0:
        return x
    shifted = F.pad(x, (0, 0, steps, 0))[:, : x.shape[1]]
    return shifted * (place >= steps)[:, :, None]
