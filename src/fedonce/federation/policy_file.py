"""The file of a guest's policy: its keys, and what `fedonce federation init` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedonce.federation.request import NAMINGS
from fedonce.federation.tomlfile import (
    FLAG,
    NAMES,
    Keys,
    Kind,
    number,
    one_of,
    some_of,
    whole,
    wrong,
)
from fedonce.learners.names import LEARNERS, UNREADABLE
from fedonce.messages.codecs import BITS

DEFAULT_POLICY = """\
# What this guest allows. Every request of a host is checked against this file before anything is done; what is not allowed is
# refused, and the host is told which key of this file says so. Changes count from the next request on.
# All keys can be left out: the values below are then used. A key that stands behind # is not set.

# Who may ask, and for which runs. Not set: every host of the federation, any run. A request says who asks; the guest compares it
# with the host that its kit names, too.
# hosts = ["bank"]
# runs = ["churn-2026"]

# Which columns may be used. Not set: all of the table. What is forbidden stays forbidden, also where `columns` has it.
# A host that asks for a forbidden column is told the same as if there were no such column.
# columns = ["visits", "spend"]
# forbid_columns = ["birthday"]

# How few columns a host may ask to learn from. Not set: all that are allowed, so that no message is about one column alone. With
# a number the host may choose any so many of them, or more.
# min_columns = 3

# How may be learnt, and how much may be sent for each row: the fewer values and bits, the less a message tells.
# Learners of other packages must be installed here, too, and are allowed only where they are named; so is "quantiles",
# whose messages can be read.
learners = @ours@
max_dim = 16
max_bits = 32
max_epochs = 1000

# How often, over the whole life of a run and of this table. What was answered is counted in answers/record.jsonl; asked the same
# again, this guest sends the same bytes, which does not count. A learning is an answer to a request that differs in anything.
# max_values_per_row: the values of all models that ever answered, added up; predictions by a model that is counted add nothing.
max_learnings = 1
max_learnings_per_year = 12
max_values_per_row = 64

# Quick attacks are tried on every message before it leaves (docs/leakage.md). max_rebuilt refuses a message from which any of
# them rebuilds a column, or whole records, better than this: 0 is no better than guessing, 1 refuses nothing. A table with a
# yes/no column is mostly refused by 0.9, unless its messages are protected (protect, local_epsilon) or very short (dim): read
# docs/decide.md before you raise it. What the best attack finds is written to the record. Other attacks may read more.
max_rebuilt = 0.9

# Noise on every value that leaves (see docs/rounds.md). 0: none is needed. A row has the same noise in every message of a model:
# to ask again does not average it away.
min_noise = 0.0

# A guarantee for each row (docs/local-epsilon.md): every training needs a local epsilon; a row's new answers within
# 365 days, over all runs, may add up to this; rows at the limit are left out, and max_rebuilt does not apply. Not set:
# none is needed.
# max_local_epsilon = 4.0

# Differential privacy of the released models, which does not cover messages: "required" refuses every training without a privacy
# budget. max_epsilon and max_delta are the most that one training may cost, for all parties together. A run is learnt with a
# budget once; budgets of several runs add up, and `runs` above says which there may be.
budget = "optional"
# max_epsilon = 4.0
max_delta = 1e-3

# Rows for predictions, once a training is done. max_predict_rows: at most so many in one request, also in one for rounds. Not
# set: no limit.
predict = true
# max_predict_rows = 100000

# Private set intersection: the host learns which of its ids are in the table. It can ask about ids that it does not have:
# max_align_rows limits about how many. Not set: no limit. Both hold also for learning from rows that the host names ("agreed").
align = true
# max_align_rows = 1000000

# Training on together in rounds (docs/rounds.md), at most so many in a run; those of a try that broke off count. 0: refused. A
# one-shot message is learnt here, from this table alone. In rounds the host's gradients steer what is sent, again and again: a
# host that does not keep to the protocol could draw out more than one message tells. Allow it to hosts that you trust with the
# columns themselves. Rounds are not counted in max_values_per_row.
max_rounds = 0

# Learning with hints: the host's labels, told so that their owners can deny them. The host chooses which label, and so what is
# looked for in this table: a host that does not keep to the protocol could take for a label what it wants to know. The message
# is still the only thing that leaves, and all limits above hold.
hints = false

# How messages may name rows: "keyed" (hashes with a secret that the parties share), "agreed" (rows of an alignment: no ids at
# all), "hashed" (hashes without a key: anyone who gets a message and can list ids finds out which are inside).
ids = ["keyed", "agreed"]
""".replace("@ours@", json.dumps(UNREADABLE))
_COLUMNS = Kind(
    "a list of names of columns", lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value)
)
KEYS: Keys = {
    "hosts": NAMES,
    "runs": NAMES,
    "columns": _COLUMNS,
    "forbid_columns": _COLUMNS,
    "min_columns": whole(1, 2**20),
    "learners": NAMES,
    "max_learnings": whole(1, 10**6),
    "max_learnings_per_year": whole(1, 10**6),
    "max_values_per_row": whole(1, 2**40),
    "max_rebuilt": number(0, most=1),
    "max_dim": whole(1, 2**20),
    "max_bits": one_of(*sorted(BITS)),
    "max_epochs": whole(1, 10**6),
    "min_noise": number(0, below=1e6),
    "max_local_epsilon": number(0, above=True),
    "budget": one_of("optional", "required"),
    "max_epsilon": number(0, above=True),
    "max_delta": number(0, above=True, below=1),
    "predict": FLAG,
    "max_predict_rows": whole(1, 2**40),
    "align": FLAG,
    "max_align_rows": whole(1, 2**40),
    "max_rounds": whole(0, 10**9),
    "hints": FLAG,
    "ids": some_of(*NAMINGS),
}


def check_hints(path: Path | str, content: Mapping[str, Any]) -> None:
    """Raise where a policy allows hints, and beside them nothing that could learn from hints."""
    if content.get("budget") == "required" or "max_local_epsilon" in content:
        what = 'budget = "required"' if content.get("budget") == "required" else "max_local_epsilon"
        must_be = (
            f"false, or left out, with {what}: what is learnt from hints is priced by no budget. Drop one of the two"
        )
        raise wrong(path, "hints", must_be, True)
    learners = content.get("learners", ())
    if learners and all(LEARNERS.facts(name).on_steps for name in learners):
        must_be = (
            f"false, or left out, where 'learners' allows {', '.join(learners)} alone, whose values leave no room for "
            "hints. Drop hints, or allow 'hinted'"
        )
        raise wrong(path, "hints", must_be, True)
