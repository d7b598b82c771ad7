"""The report's sections, one an experiment: a table, a picture, and what to make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks import frontier, paper, private
from benchmarks.figures import (
    TITLES,
    Line,
    Point,
    better,
    by_data,
    bytes_needed,
    common,
    curve,
    gain,
    look,
    mean_cell,
    number,
    order,
    pick,
    results,
    size,
    table,
    times,
    title,
)

BY_HOST = ("Solo", "FedOnce-L0", "FedOnce")
ONE_HOST = ("SplitNN-Comm", "SecureBoost-Comm", "SplitNN", "SecureBoost", "Linear-Combine", "Combine")
METHODS = BY_HOST + ONE_HOST
GOAL = 100  # times fewer bytes than SplitNN for the same accuracy


def performance() -> str:
    """Return the methods side by side: mean over hosts and seeds, and the worst and best host."""
    rows, sizes, notes = [], [], []
    for group in by_data(results("performance")).values():
        runs = {method: [x for x in pick(group, method=method) if look(x, "reg_alpha") is None] for method in METHODS}
        first = pick(runs["FedOnce"], host=(runs["SplitNN"] or runs["FedOnce"])[0]["host"])
        rows.append(
            [
                title(group[0]),
                *(_over_hosts(runs[m]) for m in BY_HOST),
                mean_cell(first),
                *(mean_cell(runs[m]) for m in ONE_HOST),
            ]
        )
        sent = [runs[method] for method in METHODS]
        sizes.append(
            [title(group[0]), *(size(np.mean([line["payload"] for line in each])) if each else "-" for each in sent)]
        )
        notes += [
            f"{TITLES[line['data']]}, {line['method']}: {line['note'].rpartition('; ')[2]}."
            for line in {line["method"]: line for line in group if line["value"] is None}.values()
        ]
    wire = [line for line in results("performance") if line["wire"]]
    parts = [
        "Accuracy in per cent, or root mean squared error. Mean over hosts and seeds; in brackets the means of the worst and the "
        "best host.",
        table(["data (parties)", *BY_HOST, "FedOnce, one host", *ONE_HOST], rows),
        "From *FedOnce, one host* on, the host is the first party (MovieLens: auxiliary): the methods to its right were run with "
        "that host alone. SplitNN's host may pass 64 values of its own columns to the head, each guest as many as FedOnce sends.",
        "Payload of training: float32 for all but FedOnce, whose values have 8 bits (images 4).",
        table(["data (parties)", *METHODS], sizes),
        "\n".join(f"- {note}" for note in dict.fromkeys(notes)),
        _wire(wire),
        _no_penalty(results("performance")),
        _level0(),
        _claims(),
    ]
    return "\n\n".join(part for part in parts if part)


def _over_hosts(lines: Sequence[Line]) -> str:
    cell = mean_cell(lines)
    hosts = {host: np.mean([line["value"] for line in pick(lines, host=host)]) for host in order(lines, "host")}
    if len(hosts) < 2:
        return cell
    ends = sorted(hosts.values(), reverse=lines[0]["metric"] == "rmse")
    metric = lines[0]["metric"]
    mean = number(float(np.mean(list(hosts.values()))), metric)
    return f"{mean} ({number(float(ends[0]), metric)} to {number(float(ends[-1]), metric)})"


def _wire(lines: Sequence[Line]) -> str:
    """Say what SecureBoost's federation really moved, beside the formula."""
    found = []
    for group in by_data(lines).values():
        moved, counted = (np.mean([line[name] for line in group]) for name in ("wire", "payload"))
        found.append(f"{title(group[0])} {size(moved)} on the wire, {size(counted)} by the formula")
    return (
        "SecureBoost, bytes of XGBoost's own federation over loopback and of the formula: " + "; ".join(found) + "."
        if found
        else ""
    )


def _no_penalty(lines: Sequence[Line]) -> str:
    """Say what SecureBoost reaches without the published L1 penalty."""
    found = []
    for group in by_data(line for line in pick(lines, method="SecureBoost") if look(line, "reg_alpha") == 0).values():
        metric = group[0]["metric"]
        with_it = [
            line for line in pick(lines, method="SecureBoost", data=group[0]["data"]) if look(line, "reg_alpha") is None
        ]
        one, other = common(curve(group, "none"), curve(with_it, "none"))
        if one:
            found.append(f"{title(group[0])} {one[0].cell(metric)} instead of {other[0].cell(metric)}")
    return f"SecureBoost without the L1 penalty: {'; '.join(found)}." if found else ""


def _claims() -> str:
    """Set the paper's sentences on how near FedOnce-L0 comes to Combine beside what was measured, seed by seed."""
    found = []
    for claim in paper.find(metric="accuracy loss"):
        group = pick(results("performance"), data=claim.data)
        text = f"- {TITLES[claim.data or '']}: the paper says that FedOnce-L0 loses {claim.value} % to Combine. Here Combine less"
        told = []
        for method in ("FedOnce", "FedOnce-L0"):
            runs, combine = (
                pick(group, method=method),
                {line["seed"]: line["value"] for line in pick(group, method="Combine")},
            )
            losses = [combine[line["seed"]] - line["value"] for line in runs if line["seed"] in combine]
            if losses:
                told.append(f"{method} is {np.mean(losses):.2f} points (mean over {len(order(runs, 'host'))} hosts)")
        if told:
            found.append(f"{text} {', less '.join(told)}.")
    return "\n".join(found)


def _level0() -> str:
    """Compare FedOnce-L0 with the paper's settings, party 1 as host, with what the paper prints for it."""
    found = []
    for entry in paper.find(table="tab:apdx_pca", method="FedOnce-L0"):
        group = pick(results("performance"), data=entry.data, host="party1")
        own, ours = pick(group, method="FedOnce-L0"), pick(group, method="FedOnce")
        if not own or not ours:
            continue
        value, best = (float(np.mean([line["value"] for line in lines])) for lines in (own, ours))
        reached = "reached" if value >= entry.value else f"missed by {entry.value - value:.2f}"
        part = "" if own[0]["complete"] else f" ({own[0]['note'].split('; ')[0]})"
        text = f"- {title(own[0])}, party 1 as host: the paper prints {entry.value} % for FedOnce-L0; with its settings here "
        found.append(f"{text}{value:.2f} %{part}, {reached}. FedOnce, our recipe: {best:.2f} %.")
    return "\n".join(found)


def communication(experiment: str = "communication") -> str:
    """Return bytes that each method needs, and how multi-round FedOnce compares with SplitNN."""
    rows, words = [], []
    for group in by_data(results(experiment)).values():
        found = common(*(_curve(group, method) for method in ("FedOnce", "FedOnce multi-round", "SplitNN")))
        one_shot, rounds, split = found
        if not one_shot or not split:
            continue
        metric, first, last = group[0]["metric"], one_shot[0], split[-1]
        share = look(pick(group, method="FedOnce")[0], "bits") / 32
        cells = [
            first.cell(metric),
            size(first.bytes),
            times(split, first, metric),
            times(_scaled(split, share), first, metric),
        ]
        rows.append([title(group[0]), str(len(first.values)), *cells, *_rounds_cells(rounds, first, last, metric)])
        words.append(_verdict(title(group[0]), first, rounds, split, metric))
    head = [
        "data (parties)",
        "folds",
        "FedOnce, one message",
        "its payload",
        "SplitNN needs, times the bytes",
        "at equal bits",
        "after 1 epoch of rounds",
        "SplitNN's last point",
        "its payload",
        "multi-round FedOnce needs, for the same",
    ]
    text = (
        table(head, rows)
        + "\n\n*At equal bits*: if SplitNN lost nothing by rounding its values to as many bits as FedOnce."
    )
    words += _printed_ratios(results(experiment))
    return "\n\n".join([text, *_rounded_split(results(experiment)), "\n".join(f"- {word}" for word in words)])


def _printed_ratios(lines: Sequence[Line]) -> list[str]:
    """Set the paper's sentence on how many bytes SplitNN needs beside what was measured."""
    found = []
    for claim in paper.find(metric="communication ratio"):
        group = [line for line in lines if line["data"] == claim.data]
        one_shot, split = common(_curve(group, "FedOnce"), _curve(group, "SplitNN"))
        if one_shot and split:
            needs = times(split, one_shot[0], group[0]["metric"])
            text = (
                f"The paper: on {TITLES[claim.data or '']} SplitNN needs {claim.value:g} times the bytes of FedOnce-L0"
            )
            found.append(f"{text} in float32. Here {needs} times those of FedOnce, with its fewer bits.")
    return found


def _curve(lines: Sequence[Line], method: str) -> list[Point]:
    """Return a method's curve; SplitNN's in float32."""
    runs = [line for line in pick(lines, method=method) if look(line, "split_bits") is None]
    return curve(runs, "trees" if method == "SecureBoost" else "epochs")


def _scaled(points: Sequence[Point], share: float) -> list[Point]:
    return [replace(point, bytes=point.bytes * share) for point in points]


def _rounded_split(lines: Sequence[Line]) -> list[str]:
    """Say what SplitNN gave where it was run with fewer bits."""
    found = []
    for group in by_data(line for line in lines if look(line, "split_bits") == 8).values():
        metric, whole = group[0]["metric"], [line for line in lines if line["data"] == group[0]["data"]]
        for epochs in order(group, "epochs"):
            rounded = curve(pick(group, epochs=epochs), "epochs")
            plain = curve(
                [x for x in pick(whole, method="SplitNN", epochs=epochs) if look(x, "split_bits") is None], "epochs"
            )
            one, other = common(rounded, plain)
            if one:
                text = f"{title(group[0])}, {epochs} epochs: {one[0].cell(metric)} with 8 bits"
                found.append(f"{text}, {other[0].cell(metric)} in float32")
    return [f"SplitNN with 8 bits in both directions, measured: {'; '.join(found)}."] if found else []


def _rounds_cells(rounds: Sequence[Point], first: Point, last: Point, metric: str) -> list[str]:
    final = [last.cell(metric), size(last.bytes)]
    if not rounds:
        return ["-", *final, "-"]
    need = bytes_needed([first, *rounds], last.mean, metric)
    reached = size(need) if need else f"not with {size(rounds[-1].bytes)}: {number(rounds[-1].mean, metric)}"
    return [rounds[0].cell(metric), *final, reached]


def _verdict(name: str, first: Point, rounds: Sequence[Point], split: Sequence[Point], metric: str) -> str:
    """Say in words what the row shows, against what the project wants to reach."""
    last, need = split[-1], bytes_needed(split, first.mean, metric)
    told = times(split, first, metric)
    if need is None:
        text = f"{name}: SplitNN does not get as good as the one message with {last.bytes / first.bytes:,.0f} times its bytes"
    else:
        text = f"{name}: SplitNN needs {told} times the bytes of the one message to be as good"
    short = (need or last.bytes) < GOAL * first.bytes
    text += f", {'which is short of' if short else 'more than'} the {GOAL} times that were the goal."
    if not rounds:
        return text
    change = gain(first, rounds[0], metric)
    if change is not None:
        mean, error = change
        kept = "keeps the accuracy" if mean >= -error else "loses accuracy, by more than a standard error"
        digits = 3 if metric == "accuracy" else 5
        text += f" One epoch of rounds {kept}: {mean:+.{digits}f} (standard error {error:.{digits}f})."
    reached = bytes_needed([first, *rounds], last.mean, metric)
    if reached is not None and reached < last.bytes:
        return (
            text
            + f" Multi-round FedOnce is as good as SplitNN's last point with {last.bytes / reached:,.0f} times fewer bytes."
        )
    return text + " Multi-round FedOnce does not get as good as SplitNN's last point with fewer bytes."


def cifar10() -> str:
    """Return CIFAR-10's bytes, with Solo and Combine beside."""
    lines = results("cifar10")
    beside = ", ".join(f"{method} {mean_cell(pick(lines, method=method))}" for method in ("Solo", "Combine"))
    return communication("cifar10") + f"\n\nBeside them: {beside}."


def time() -> str:
    """Return training times as ratios, the paper's beside."""
    rows = []
    for group in by_data(results("time")).values():
        minutes = {entry.method: entry.value for entry in paper.find(table="tab:train_time", data=group[0]["data"])}
        printed = f"{minutes['SplitNN']} / {minutes['FedOnce-L0']} = {minutes['SplitNN'] / minutes['FedOnce-L0']:.1f}"
        cells = []
        for settings, method in (("paper", "FedOnce-L0"), (None, "FedOnce")):
            split, ours = (pick(group, method=name, settings=settings) for name in ("SplitNN", method))
            cells.append(_times(split, ours))
        rows.append([title(group[0]), printed, *cells, group[0]["machine"]])
    head = [
        "data (parties)",
        "paper: SplitNN / FedOnce-L0, min",
        "ours, the paper's settings: seconds",
        "ours, our recipe: seconds",
        "machine",
    ]
    return table(head, rows)


def _times(split: Sequence[Line], ours: Sequence[Line]) -> str:
    if not split or not ours:
        return f"not run / {ours[0]['seconds']:.0f} (CPU {ours[0]['cpu']:.0f})" if ours else "-"
    (slow, slow_cpu), (fast, fast_cpu) = ((each[0]["seconds"], each[0]["cpu"]) for each in (split, ours))
    return f"{slow:.0f} / {fast:.0f} = {slow / fast:.1f} (CPU {slow_cpu:.0f} / {fast_cpu:.0f})"


def dimension() -> str:
    """Return accuracy by d, mean and spread over hosts."""
    lines = results("dimension")
    methods = order(lines, "method")
    rows = [
        [str(d), *(mean_cell(pick(lines, dim=d, method=method)) for method in methods)] for d in order(lines, "dim")
    ]
    best = {
        method: max(
            order(lines, "dim"), key=lambda d: np.mean([x["value"] for x in pick(lines, dim=d, method=method)] or [0])
        )
        for method in methods
    }
    said = ", ".join(f"{method} {d}" for method, d in best.items())
    return table(["d", *methods], rows) + f"\n\nThe paper finds NAT best with d of about 16. Best here: {said}."


def parties() -> str:
    """Return accuracy by the number of parties."""
    lines = results("parties")
    methods = [m for m in METHODS if pick(lines, method=m)]
    wide = [k for k in order(lines, "parties") if k]
    rows = [[str(k), *(mean_cell(pick(lines, parties=k, method=method)) for method in methods)] for k in wide]
    standin = (
        ""
        if any(line["data"] == "gisette" for line in lines)
        else "**Stand-in**: gisette is missing, these are MNIST's fours and nines.\n\n"
    )
    notes = {
        f"- {line['method']}, k = {look(line, 'parties')}: {line['note']}." for line in lines if line["value"] is None
    }
    return standin + table(["k", *methods], rows) + ("\n\n" + "\n".join(sorted(notes)) if notes else "")


def biased() -> str:
    """Return what the host's share of good columns does."""
    parts = []
    for group in by_data(results("biased")).values():
        combine = mean_cell(pick(group, method="Combine"))
        rows = [
            [
                f"{alpha:g}",
                *(mean_cell(pick(group, method=method, biased=alpha)) for method in ("Solo", "FedOnce")),
                combine,
            ]
            for alpha in order(group, "biased")
        ]
        parts.append(
            f"{title(group[0])}, p = {look(group[0], 'p')}:\n\n" + table(["alpha", "Solo", "FedOnce", "Combine"], rows)
        )
    return "\n\n".join(parts)


def unsupervised() -> str:
    """Return learners side by side, their linear probes, and what the paper prints."""
    lines = results("unsupervised")
    methods = order(lines, "method")
    rows, words = [], []
    for group in by_data(lines).values():
        cells = []
        for method in methods:
            runs = pick(group, method=method)
            probes = [line | {"value": line["probe"]} for line in runs]
            cells.append(f"{mean_cell(runs)} ({mean_cell(probes)})" if runs else "-")
        size_ = f"{look(group[0], 'dim')} x {look(group[0], 'bits')} bit"
        rows.append([title(group[0]), size_, *cells])
        words += _against_paper(group)
    text = "Accuracy or error of FedOnce, in brackets the linear probe's.\n\n"
    text += table(["data (parties)", "message", *methods], rows)
    entries = {(entry.data or "", entry.method): entry.value for entry in paper.find(table="tab:apdx_pca")}
    printed = [
        [TITLES[name], *(f"{entries[name, method]}" for method in ("FedOnce-L0", "FedOnce-PCA"))]
        for name in dict.fromkeys(name for name, _ in entries)
    ]
    text += "\n\nThe paper prints:\n\n" + table(["data", "FedOnce-L0 (NAT)", "FedOnce-PCA"], printed)
    return text + "\n\n" + "\n".join(f"- {word}" for word in words)


def _against_paper(group: Sequence[Line]) -> list[str]:
    """Say where our number differs from the paper's for the same learner."""
    found = []
    for entry in paper.find(table="tab:apdx_pca", data=group[0]["data"]):
        method = {"FedOnce-L0": "FedOnce-NAT"}.get(entry.method, entry.method)
        ours = pick(group, method=method)
        if not ours:
            continue
        mean = float(np.mean([line["value"] for line in ours]))
        text = f"{title(ours[0])}: the paper prints {entry.value} % for {entry.method}, {method} here has {mean:.2f} %"
        if mean - entry.value > 20:
            text += ". The paper's number looks like a defect, not like what PCA can do"
        elif not ours[0]["complete"]:
            text += f" on part of the data ({ours[0]['note']})"
        found.append(text + ".")
    return found


def noise() -> str:
    """Return what noise on representations costs."""
    lines = results("noise")
    scales = order(lines, "noise")
    rows = []
    for group in by_data(lines).values():
        cells = [_over_hosts(pick(group, noise=scale)) for scale in scales]
        rows.append([title(group[0]), *cells, _over_hosts(pick(group, method="Solo"))])
        printed = {entry.noise: entry.value for entry in paper.find(table="tab:noise_repr", data=group[0]["data"])}
        if printed:
            solo = paper.find(table="tab:noise_repr", data=group[0]["data"], method="Solo")[0].value
            rows.append(
                [
                    f"{TITLES[group[0]['data']]}, the paper",
                    *(str(printed.get(scale, "-")) for scale in scales),
                    str(solo),
                ]
            )
    return (
        table(["data (parties)", *(f"sigma_r {scale:g}" for scale in scales), "Solo"], rows)
        + "\n\n"
        + _noise_words(lines)
    )


def _noise_words(lines: Sequence[Line]) -> str:
    words = []
    for group in by_data(lines).values():
        solo = pick(group, method="Solo")
        metric = group[0]["metric"]
        if not solo:
            continue
        alone = float(np.mean([line["value"] for line in solo]))
        useful = [
            scale
            for scale in order(group, "noise")
            if better(metric, float(np.mean([line["value"] for line in pick(group, noise=scale)])), alone)
        ]
        most = (
            f"up to sigma_r {max(useful):g}"
            if useful and max(useful)
            else "without noise alone"
            if useful
            else "not at all"
        )
        words.append(f"- {title(group[0])}: the message helps {most}.")
    return "\n".join(words)


def laggy() -> str:
    """Return what absent guests cost."""
    parts = []
    for group in by_data(results("laggy")).values():
        absent = order(group, "absent")
        rows = [[title(group[0]), *(mean_cell(pick(group, absent=count)) for count in absent)]]
        parts.append(table(["data (parties)", *(f"{count} absent" for count in absent)], rows))
    return "\n\n".join(parts)


def methods() -> str:
    """Return one run of every method, with bytes and times."""
    lines = results("methods")
    rows = [
        [
            line["method"],
            "-" if line["value"] is None else number(line["value"], line["metric"]),
            f"{line['messages']:,}",
            size(line["payload"]),
            size(line["bytes"]),
            size(line["wire"]) if line["wire"] else "-",
            f"{line['seconds']:.0f}",
            f"{line['cpu']:.0f}",
            line["note"] if line["value"] is None else "",
        ]
        for line in lines
    ]
    head = [
        "method",
        "accuracy (%)",
        "messages",
        "payload",
        "messages' bytes",
        "on a wire",
        "seconds",
        "CPU seconds",
        "",
    ]
    return table(head, rows)


def summary() -> str:
    """Return the README's table: one host, the rivals beside, and what SplitNN would have to send."""
    methods = ("Solo", "FedOnce", "SplitNN-Comm", "SplitNN", "SecureBoost", "Combine")
    curves = by_data([*results("communication"), *results("cifar10")])
    rows = []
    for key, group in by_data(results("performance")).items():
        if not pick(group, method="SplitNN"):
            continue
        host = pick(group, method="SplitNN")[0]["host"]
        runs = {m: [x for x in pick(group, method=m, host=host) if look(x, "reg_alpha") is None] for m in methods}
        seeds = set.intersection(*({line["seed"] for line in found} for found in runs.values() if found))
        cells = [mean_cell([line for line in runs[method] if line["seed"] in seeds]) for method in methods]
        one_shot, split = common(*(_curve(curves.get(key, []), method) for method in ("FedOnce", "SplitNN")))
        needs = times(split, one_shot[0], group[0]["metric"]) if one_shot and split else "-"
        sent = size(np.mean([line["payload"] for line in runs["FedOnce"]]))
        rows.append([title(group[0]), sent, *cells, needs])
    head = [
        "data (parties)",
        "FedOnce sends",
        "Solo",
        "FedOnce",
        "SplitNN, as many bytes",
        *methods[3:],
        "SplitNN needs, times the bytes",
    ]
    return table(head, rows)


SECTIONS = {
    "methods": methods,
    "performance": performance,
    "communication": communication,
    "cifar10": cifar10,
    "frontier": frontier.section,
    "unsupervised": unsupervised,
    "dimension": dimension,
    "parties": parties,
    "biased": biased,
    "noise": noise,
    "laggy": laggy,
    "time": time,
    "private": private.section,
}
