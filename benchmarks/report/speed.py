"""Speed and memory in docs/speed.md, as `make bench` last measured them."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import store
from benchmarks.report.figures import table


def _stored(name: str) -> Any:
    return json.loads((store.RESULTS / f"{name}.json").read_text())


def bench_table() -> str:
    """Return speed and memory, as `make bench` last measured them."""
    speed, memory = (_stored(name) for name in ("nat_speed", "memory"))
    rows = ["| NAT | plain torch loop | fedonce | times faster | losses differ by |", "|---|---|---|---|---|"]
    for row in speed:
        guests = "one guest" if row["guests"] == 1 else f"{row['guests']} guests, two processes"
        seconds = f"{row['plain_s']:.4f} s | {row['ours_s']:.4f} s"
        rows.append(f"| {guests} | {seconds} | {row['ratio']:.1f} | {100 * row['losses_apart']:.2f} % |")
    peaks = " and ".join(f"{row['peak_beyond'] / 2**20:.0f} MiB ({row['learner']})" for row in memory)
    loading = _stored("loading")
    loaded = ", ".join(f"{row['name']} ({row['rows']:,} rows) in {row['seconds']:.1f} s" for row in loading)
    most = max(row["peak"] for row in loading) / 2**20
    return "\n".join(rows) + (
        f"\n\n{_dpsgd()}\n\nOne guest with 1,000,000 rows x 20 columns, d=16: {peaks} beyond the data at the peak. "
        f"Loading {loaded}; at most {most:.0f} MiB in all."
    )


def files_lines() -> list[str]:
    """Return what parties with tables in files need: large tables, alignment, reading."""
    large, aligned, readers = (_stored(name) for name in ("large_tables", "alignment_speed", "table_readers"))
    guest = f"{max(large['guest_seconds']):.0f} s and {large['guest_peak'] / 2**30:.2f} GiB"
    host = f"{large['host_seconds']:.0f} s and {large['host_peak'] / 2**30:.2f} GiB"
    total = sum(aligned["seconds"].values())
    sizes = ", ".join(f"{name} {aligned['bytes'][name] / 1e6:.1f} MB" for name in ("request", "response", "rows"))
    return [
        f"- `guest fit` by PCA, {large['rows']:,} rows x {large['columns']} columns of Parquet: at most {guest} in all, a "
        f"message of {large['message_bytes'] / 1e6:.1f} MB. `host fit` with {large['guests']} such guests, d=8: {host}.",
        f"- Alignment of {aligned['rows']:,} x {aligned['rows']:,} ids: {total:.0f} s, {aligned['ratio']:.2f} times the "
        f"library's own calls; {sizes}.",
        f"- Reading 1,000,000 rows x 50 columns: {_readers(readers)}.",
    ]


def convolutions_table() -> str:
    """Return what the layout of weights, kept memory, half the precision and small blocks are worth to `cnn3`."""
    kinds = {
        "channels last, over channels first": "channels_last_over_first",
        "memory kept, over given back": "memory_kept_over_given_back",
        "bfloat16, over float32": "bfloat16_over_float32",
        "applied in small blocks, over large ones": "small_blocks_over_large",
    }
    rows = [[row["images"], *(f"{row[kind]:.2f}" for kind in kinds.values())] for row in _stored("convolutions_speed")]
    return table(["images", *kinds], rows)


def installing_table() -> str:
    """Return how long an installation takes by pip and by uv, and how much room."""
    found = _stored("installing")
    rows = ["| | from nothing | again, from the cache | on disk |", "|---|---|---|---|"]
    for tool in ("pip", "uv"):
        first, again = found[f"{tool}, first"], found[f"{tool}, again"]
        rows.append(f"| {tool} | {first['seconds']:.0f} s | {again['seconds']:.0f} s | {first['megabytes']:,.0f} MB |")
    return "\n".join(rows)


def _readers(found: list[dict]) -> str:
    told = [
        f"{row['library']} {row['seconds']:.1f} s, {row['peak'] / 2**20:.0f} MiB ({row['file'].replace('csv', 'CSV')})"
        for row in found
    ]
    return "; ".join(told)


def _dpsgd() -> str:
    """Say how fast a DP-SGD step is, as `make bench` last measured it."""
    rows = _stored("dpsgd_speed")
    told = "; ".join(
        f"{row['network']}: {row['torch']:.2f} times torch's step without privacy, {row['closed_form']:.2f} times our own "
        f"without, {row['opacus']:.1f} times faster than Opacus"
        for row in rows
    )
    return f"A DP-SGD step of an MLP (10,000 rows x 17 columns, batch 128): {told}."
