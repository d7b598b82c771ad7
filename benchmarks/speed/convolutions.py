"""How long the network `cnn3` takes: channels last, as it is made; memory that is kept; half the precision; small blocks.

    python -m benchmarks.speed.convolutions [--batch 256 --steps 20]

One thread. Channels last are compared with channels first, by steps that take turns. Kept memory: glibc gives large blocks back
to the system when they are freed, and gets them again, page by page, in the next step; `KEEP` tells it not to. A program
is told so before it starts, so these are compared by processes that take turns. Half the precision is torch's autocast to
bfloat16, by steps that take turns; it pays on a processor with instructions for such numbers. Once trained, a network is applied
to blocks of rows that fit a processor's cache, which is compared with the blocks of tables. What else the machine does falls
on both sides; the ratio is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

from benchmarks import store
from fedonce.training import loop
from fedonce.training.networks import cnn3

SHAPES = {
    "quarter of MNIST": (1, 14, 14),
    "half of MNIST": (1, 28, 14),
    "MNIST": (1, 28, 28),
    "half of CIFAR-10": (3, 32, 16),
}
KEEP = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
TURNS = 3
BLOCKS = (loop.IMAGE_BLOCK, loop.APPLY_BLOCK)
RESULTS = store.RESULTS / "convolutions_speed.json"


def channels_first(network: nn.Module) -> nn.Module:
    """Lay a network's weights out as torch does by itself."""
    for weight in network.parameters():
        weight.data = weight.data.to(memory_format=torch.contiguous_format)
    return network


def step(network: nn.Module, images: torch.Tensor) -> Callable[[], None]:
    """Return a step of training: forward, backward, and the weights moved."""
    labels = torch.randint(10, (len(images),))
    optimizer = torch.optim.AdamW(network.parameters())

    def run() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return run


def in_bfloat16(run: Callable[[], None]) -> Callable[[], None]:
    """Let a step multiply in numbers of half the length."""

    def shorter() -> None:
        with store.mixed_precision(True):
            run()

    return shorter


def applied(network: nn.Module, images: torch.Tensor, block: int) -> Callable[[], None]:
    """Return what gives the network's values of images, so many at a time."""
    rows = images.numpy()

    def run() -> None:
        loop.IMAGE_BLOCK = block
        loop.apply(network, rows, torch.device("cpu"))

    return run


def seconds(steps: list[Callable[[], None]], count: int) -> list[float]:
    """Return the CPU seconds of each kind, in turns, after two to warm up."""
    taken = [0.0] * len(steps)
    for turn in range(count + 2):
        for kind, run in enumerate(steps):
            started = time.process_time()
            run()
            taken[kind] += (time.process_time() - started) * (turn >= 2)
    return taken


def kept_over_given_back(name: str, batch: int, count: int) -> float:
    """Return the ratio of the CPU seconds of processes that keep their memory to those of processes that give it back."""
    given_back = {variable: value for variable, value in os.environ.items() if variable not in KEEP}
    command = [
        sys.executable,
        "-m",
        "benchmarks.speed.convolutions",
        f"--batch={batch}",
        f"--steps={count}",
        "--only",
        name,
    ]
    taken = [0.0, 0.0]
    for _ in range(TURNS):
        for kind, environment in enumerate((given_back | KEEP, given_back)):
            printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
            taken[kind] += float(printed)
    return taken[0] / taken[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--only", choices=SHAPES, help="print the CPU seconds of one network's steps, and nothing else")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.only:
        shape = SHAPES[given.only]
        print(*seconds([step(cnn3(shape, 10), torch.randn(given.batch, *shape))], given.steps))
        return
    rows = []
    for name, shape in SHAPES.items():
        images = torch.randn(given.batch, *shape)
        last, first = cnn3(shape, 10), channels_first(cnn3(shape, 10))
        new, old = seconds([step(last, images), step(first, images)], given.steps)
        usual = step(last, images)
        half, full = seconds([in_bfloat16(usual), usual], given.steps)
        small, large = seconds([applied(last.eval(), images, block) for block in BLOCKS], given.steps)
        rows.append(
            {
                "images": name,
                "batch": given.batch,
                "channels_last_over_first": round(new / old, 3),
                "bfloat16_over_float32": round(half / full, 3),
                "small_blocks_over_large": round(small / large, 3),
                "memory_kept_over_given_back": round(kept_over_given_back(name, given.batch, given.steps), 3),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
