"""Who holds a message whose ids are hashed without a key finds them by hashing whatever an id may be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedonce.assess.attacks.base import Attack, Exposed, Finding, share_interval
from fedonce.assess.attacks.names import ATTACKS, Facts
from fedonce.rows.ids import hashed

MOST_TRIED = 300_000  # hashes, which take a second or so
DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class GuessedIds(Attack):
    """Hash every number in the ids' own form, and look it up among the message's ids.

    The attacker knows how ids look: the letters around their last run of digits, how many digits there are, and the largest
    number in use. Where there are more such numbers than can be tried, some are drawn, and what they find stands for all.

    Parameters
    ----------
    most_tried : int
        How many numbers are hashed.
    """

    name: ClassVar[str] = "guessing ids"
    facts: ClassVar[Facts] = ATTACKS.built_in["guessing ids"].facts

    most_tried: int = MOST_TRIED

    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Say how many ids are found."""
        assert exposed.ids is not None
        assert exposed.own_ids is not None
        n, naming = len(exposed.ids), exposed.naming.split()[0] if exposed.naming else ""
        if naming == "plain":
            return [
                Finding(
                    self.name, None, "id", 1.0, 0.0, 0.0, *share_interval(1.0, n), n, note="ids are sent as they are"
                )
            ]
        if naming != "hashed":
            note = "ids are hashed with a key: who lacks the secret has nothing to compare with"
            return [Finding(self.name, None, "id", 0.0, 0.0, 0.0, *share_interval(0.0, n), n, note=note)]
        candidates, share = self._candidates([str(each) for each in exposed.own_ids], rng)
        if not candidates:
            note = "ids have no number that could be counted through; who has a list of them finds them all the same"
            return [Finding(self.name, None, "id", 0.0, 0.0, 0.0, *share_interval(0.0, n), n, note=note)]
        keys = hashed(np.array(candidates, dtype=object))
        there = {row.tobytes() for row in np.ascontiguousarray(exposed.ids)}
        hit = sum(row.tobytes() in there for row in keys)
        score = min(1.0, hit / share / n)
        note = f"{len(candidates):,} of {round(len(candidates) / share):,} possible ids hashed, {hit:,} found"
        return [Finding(self.name, None, "id", score, 0.0, 0.0, *share_interval(score, n), n, note=note)]

    def _candidates(self, ids: list[str], rng: np.random.Generator) -> tuple[list[str], float]:
        """Return ids to try, and which part of all that look like these they are."""
        forms: Counter[tuple[str, str, int]] = Counter()
        largest: dict[tuple[str, str, int], int] = {}
        for text in ids:
            runs = list(DIGITS.finditer(text))
            if not runs or len(runs[-1][0]) > 15:
                continue
            last = runs[-1]
            padded = last[0].startswith("0") or len(last[0]) > 1
            form = (text[: last.start()], text[last.end() :], len(last[0]) if padded else 0)
            forms[form] += 1
            largest[form] = max(largest.get(form, 0), int(last[0]))
        common = [form for form, count in forms.most_common(20) if count >= len(ids) / 100]
        sizes = [largest[form] + 1 for form in common]
        total = sum(sizes)
        if not total:
            return [], 1.0
        share = min(1.0, self.most_tried / total)
        tried: list[str] = []
        for (before, after, width), size in zip(common, sizes, strict=True):
            numbers = (
                range(size) if share == 1.0 else np.unique(rng.integers(0, size, max(1, round(share * size)))).tolist()
            )
            tried += [f"{before}{number:0{width}d}{after}" for number in numbers]
        return list(dict.fromkeys(tried)), len(tried) / total
