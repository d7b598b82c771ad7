"""Measurements behind the project's figures.

`python -m benchmarks.run NAME` runs an experiment of benchmarks/experiments, `python -m benchmarks.report` writes
docs/results.md, `python -m benchmarks.speed.NAME` measures speed or memory.

Only documented names of the library are imported: those of `fedonce` itself and of the modules that README.md and docs/ name.
`INSIDE` lists what a benchmark needs beyond them, and why; `tests/benchmarks/test_imports.py` compares.
"""

INSIDE: dict[str, tuple[str, tuple[str, ...]]] = {
    "methods/calibration.py": ("scores probabilities as `host evaluate` does", ("fedonce.assess.evaluation",)),
    "audit_power.py": (
        "weakens each mechanism behind the back of plan and ledger, and runs the audit's test of it",
        (
            "fedonce.assess.audit.answers",
            "fedonce.assess.audit.measures",
            "fedonce.assess.audit_report",
            "fedonce.privacy.response",
            "fedonce.privacy.subset",
        ),
    ),
    "attacks.py": (
        "counts the candidates that the attack finds in values without structure, and notes what a guest receives in rounds",
        (
            "fedonce.assess.attacks.spans",
            "fedonce.data.table",
            "fedonce.engine.local",
            "fedonce.rounds.guest",
        ),
    ),
    "config.py": ("knows what a protection is called", ("fedonce.learners.names",)),
    "methods/leakage.py": (
        "attacks messages as `fedonce leakage` does, by who knows 1 % of the rows alone",
        ("fedonce.assess.attacks.known_rows", "fedonce.data.table"),
    ),
    "protections.py": (
        "attacks messages as `fedonce leakage` does, by who knows 1 % of the rows alone",
        ("fedonce.assess.attacks.known_rows", "fedonce.data.table"),
    ),
    "private_cells.py": (
        "tries a learner that the library does not have, built on its cells and priced as its own learners are",
        ("fedonce.learners.cells", "fedonce.learners.names", "fedonce.privacy.budget", "fedonce.training.loop"),
    ),
    "speed/convolutions.py": ("times a network by itself", ("fedonce.training.loop", "fedonce.training.networks")),
    "read_cells.py": (
        "reads a message as one who got hold of the centres, and by the attack that guests are told of",
        ("fedonce.assess.leakage", "fedonce.data.table"),
    ),
    "methods/splitnn.py": (
        "times each guest apart in every round, and moves their images as the host's recipe does",
        (
            "fedonce.data.table",
            "fedonce.engine.local",
            "fedonce.hostmodels.recipe",
            "fedonce.messages.received",
            "fedonce.rounds.split_learning",
        ),
    ),
    "methods/splitnn_tabm.py": (
        "trains the networks of all parties together, on rows prepared and held back as parties do it",
        (
            "fedonce.data.table",
            "fedonce.hostmodels.base",
            "fedonce.hostmodels.holding",
            "fedonce.hostmodels.tabm_network",
            "fedonce.party.labels",
            "fedonce.training.loop",
            "fedonce.training.randomness",
        ),
    ),
    "methods/settings.py": ("finds a recipe by its name, to give it more networks", ("fedonce.hostmodels.recipe",)),
    "hint_messages.py": (
        "learns each kind of values once, and puts messages together of them that no guest would send",
        (
            "fedonce.learners.hint_encoder",
            "fedonce.messages.codecs.budget",
            "fedonce.messages.representation",
            "fedonce.training.loop",
        ),
    ),
    "host_settings.py": (
        "records what a host's model sees, by a model of its own",
        (
            "fedonce.hostmodels.base",
            "fedonce.hostmodels.mlp",
            "fedonce.hostmodels.names",
            "fedonce.hostmodels.trees",
        ),
    ),
    "kept_variance.py": ("looks at a guest's rows as they are after preparation", ("fedonce.data.table",)),
    "privacy_loss.py": (
        "prices events that no training spends; the command `fedonce privacy epsilon` does it one by one",
        ("fedonce.privacy.accountants", "fedonce.privacy.events"),
    ),
    "report/drawing.py": (
        "draws a method in the colour that it has in the library's own pages",
        ("fedonce.report.colours",),
    ),
    "speed/nat.py": (
        "times the guests' learning side by side, without the host's training",
        ("fedonce.data.table", "fedonce.engine.local"),
    ),
    "speed/coders.py": (
        "hands the integers of a message to other compressors",
        ("fedonce.messages.codecs.integers", "fedonce.messages.codecs.packing"),
    ),
    "speed/quickstart.py": ("times the guests' learning apart from the host's", ("fedonce.engine.local",)),
    "speed/dpsgd.py": (
        "times one step of the training loop",
        ("fedonce.privacy.budget", "fedonce.training.loop", "fedonce.training.steps"),
    ),
    "speed/federation.py": (
        "times the way of single messages and rounds in a running federation",
        (
            "fedonce.federation.collecting",
            "fedonce.federation.engine",
            "fedonce.federation.flare.engine",
            "fedonce.federation.flare.host_steps",
            "fedonce.federation.flare.kits",
            "fedonce.federation.flare.site_processes",
            "fedonce.federation.flare.sites",
            "fedonce.federation.report",
            "fedonce.federation.request",
            "fedonce.federation.runfile",
            "fedonce.federation.status",
            "fedonce.messages.received",
        ),
    ),
    "speed/federation_simulator.py": (
        "puts the guests' code into FLARE's simulator, for which there is no command",
        (
            "fedonce.federation.answer",
            "fedonce.federation.flare.jobs",
            "fedonce.federation.policy",
            "fedonce.federation.request",
            "fedonce.federation.tables",
        ),
    ),
}
