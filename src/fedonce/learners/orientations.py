"""Fixed features of images: how strong edges of each direction are, in each region. They look at no row but their own.

With a privacy budget images go through these before PCA (Dalal and Triggs, 2005, whose histograms of oriented gradients these
are, simplified): fewer numbers than pixels, which say more, so that less noise hides them. Nothing is learnt, and nothing spent.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

SMALLEST_IMAGE = 8  # pixels per side; below, pixels are taken as they are
DIRECTIONS = 8
REGIONS = 3  # a side
CONTRAST = (
    0.05  # added to the length of a row's features before they are divided by it, so that empty images stay short
)


class Orientations(nn.Module):
    """Edges by direction and region; every row's features have a length below 1."""

    def forward(self, images: Tensor) -> Tensor:
        """Describe images, (n, channels, rows, columns), by channels x 8 directions x 3 x 3 regions."""
        padded = F.pad(images, (1, 1, 1, 1), mode="replicate")
        across = (padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]) / 2
        down = (padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]) / 2
        angles = [2 * math.pi * k / DIRECTIONS for k in range(DIRECTIONS)]
        edges = torch.cat([F.relu(across * math.cos(angle) + down * math.sin(angle)) for angle in angles], dim=1)
        features = F.adaptive_avg_pool2d(edges, REGIONS).flatten(1)
        described: Tensor = features / (features.norm(dim=1, keepdim=True) + CONTRAST)
        return described


def fits(shape: tuple[int, ...]) -> bool:
    """Tell whether rows are images large enough."""
    return len(shape) == 3 and min(shape[1:]) >= SMALLEST_IMAGE
