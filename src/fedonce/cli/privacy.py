"""`fedonce privacy`: what a training costs, how a budget is divided, and an audit of the claims."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from fedonce.cli.help import command, group
from fedonce.cli.terminal import AsJson, Printer, Quiet, say, to_json
from fedonce.errors import InputError, parameter_error
from fedonce.learners.names import private_ones

if TYPE_CHECKING:
    from fedonce.privacy.ledger import Ledger

privacy = group(
    "Privacy budgets: what a training costs, a plan for all parties, an audit.",
    "fedonce privacy plan --epsilon 2 --rows 60000 --parties bank,shop --out loans.plan",
)

Accountant = Annotated[str, typer.Option(help="pld (tightest), rdp, or reference (the paper's).")]
Division = Annotated[str, typer.Option(help="moments (one ledger for all parties) or simple (epsilon / k each).")]


@command(privacy, "fedonce privacy epsilon --rows 60000 --batch 256 --epochs 20 --noise 1.1 --delta 1e-6")
def epsilon(
    rows: Annotated[int, typer.Option(help="Rows of each party.", min=1)],
    batch: Annotated[int, typer.Option(help="Rows in a batch, on average.", min=1)],
    epochs: Annotated[float, typer.Option(help="Passes over the rows.", min=0)],
    noise: Annotated[float, typer.Option(help="Noise, as a multiple of the clipping norm.", min=0)],
    delta: Annotated[float, typer.Option(help="Probability with which the guarantee may fail.")],
    parties: Annotated[int, typer.Option(help="Parties that train alike.", min=1)] = 1,
    accountant: Accountant = "pld",
    division: Division = "moments",
    as_json: AsJson = False,
) -> None:
    """Print what a training costs, all parties together, each with its own columns of the same people."""
    from fedonce.privacy import accountants
    from fedonce.privacy.events import SampledGaussian

    accountants.check(accountant, division, "fedonce privacy epsilon")
    if not 0 < delta < 1:
        raise parameter_error("fedonce privacy epsilon", "--delta", "between 0 and 1", delta)
    if batch > rows:
        raise parameter_error("fedonce privacy epsilon", "--batch", f"at most the number of rows ({rows})", batch)
    steps = math.ceil(epochs * rows / batch)
    if not steps:
        raise parameter_error("fedonce privacy epsilon", "--epochs", "above 0", epochs)
    events = [[SampledGaussian(noise, batch / rows, steps)]] * parties
    found = {each: accountants.total(events, delta, accountant, each) for each in accountants.DIVISIONS}
    saving = 1 - found["moments"] / found["simple"] if math.isfinite(found["simple"]) else None
    figures = {
        "epsilon": found[division],
        "delta": delta,
        "noise": noise,
        "sampling": batch / rows,
        "steps": steps,
        "parties": parties,
        "accountant": accountant,
        "division": division,
        "saving": saving,
    }
    if as_json:
        typer.echo(to_json(figures))
        return
    typer.echo(f"epsilon {found[division]:.4g} at delta {delta:.3g} ({division} division, {accountant} accountant)")
    typer.echo(f"{parties} x {steps} steps, each row sampled with probability {batch / rows:.4g}, noise {noise:.4g}")
    if parties > 1 and saving is not None:
        prices = f"moments division {found['moments']:.5g}, simple division {found['simple']:.5g}"
        typer.echo(f"{prices}: moments division saves {100 * saving:.1f} %")
    if delta > 1 / rows:
        typer.echo(f"warning: delta is above 1 / rows ({1 / rows:.3g}): a whole row may slip out within it")


@command(
    privacy,
    "fedonce privacy plan --epsilon 2 --rows 60000 --parties bank,shop --out loans.plan",
    "fedonce privacy plan --epsilon 8 --rows 60000,55000 --parties bank,shop --learner autoencoder",
)
def plan(
    epsilon: Annotated[float, typer.Option(help="The budget of all parties together.")],
    rows: Annotated[str, typer.Option(help="Rows of each party: one number, or one for each, as in 60000,55000.")],
    parties: Annotated[str, typer.Option(help="How many, or their names, as in bank,shop; the first is the host.")],
    delta: Annotated[float | None, typer.Option(help="Default: 1 / (10 rows), of the party with the most.")] = None,
    learner: Annotated[str, typer.Option(help=f"How guests learn: {private_ones()}.")] = "pca",
    batch: Annotated[
        int | None, typer.Option(help="Rows in a batch, on average. Default: the recipe's.", min=1)
    ] = None,
    guest_epochs: Annotated[int | None, typer.Option(help="Of learners that train. Default: their own.", min=1)] = None,
    host_epochs: Annotated[int | None, typer.Option(help="Default: the recipe's.", min=1)] = None,
    task: Annotated[str, typer.Option(help="classification or regression.")] = "classification",
    common_noise: Annotated[
        bool, typer.Option("--common-noise", help="The same noise for all, as in the paper.")
    ] = False,
    allow_large_delta: Annotated[
        bool, typer.Option("--allow-large-delta", help="Permit delta above 1 / rows.")
    ] = False,
    accountant: Accountant = "pld",
    division: Division = "moments",
    out: Annotated[Path | None, typer.Option(help="Write the plan here, for all parties to use.")] = None,
    as_json: AsJson = False,
) -> None:
    """Divide a budget among parties before anything is trained, and print the ledger as it will be.

    The noise is found so that all that parties will do, together, costs the budget. Parties train by the plan file; the host
    refuses messages whose sum exceeds it.
    """
    from fedonce import learners
    from fedonce.hostmodels import NetworkModel
    from fedonce.hostmodels.plan import plan as make_plan
    from fedonce.hostmodels.recipe import find_recipe
    from fedonce.privacy import accountants

    owner = "fedonce privacy plan"
    accountants.check(accountant, division, owner)
    if task not in ("classification", "regression"):
        raise parameter_error(owner, "--task", "classification or regression", task)
    if out is not None and not out.parent.is_dir():
        raise parameter_error(owner, "--out", "a file in a folder that is there", str(out))
    names = _names(parties, owner)
    counts = _counts(rows, names, owner)
    least = 1 / max(counts.values())
    if delta is not None and delta > least and not allow_large_delta:
        wanted = f"at most 1 / rows ({least:.3g}), or --allow-large-delta: a larger one lets a whole row slip out"
        raise parameter_error(owner, "--delta", wanted, delta)
    recipe = find_recipe("default", host_epochs, (1,), owner, budget=task)
    chosen = learners.make(learner, guest_epochs, owner)
    if batch is not None:
        recipe = replace(recipe, batch=batch)
        if hasattr(chosen, "private_batch"):
            chosen.private_batch = batch
    made = make_plan(
        names[0],
        NetworkModel(recipe),
        task,
        counts[names[0]],
        dict.fromkeys(names[1:], chosen),
        counts,
        epsilon,
        1 / (10 * max(counts.values())) if delta is None else delta,
        accountant,
        division,
        "common" if common_noise else None,
    )
    if out is not None:
        made.to_file(out)
    ledger = made.ledger(spent=True)
    if as_json:
        typer.echo(to_json({"plan": None if out is None else str(out), "ledger": ledger.rows()}))
        return
    show(ledger, f"plan for epsilon {epsilon:g}")
    if out is not None:
        typer.echo(f"plan: {out}")


@command(privacy, "fedonce privacy audit", "fedonce privacy audit --epsilon 4 --models 32 --out audit/")
def audit(
    out: Annotated[Path, typer.Option(help="Folder for audit.html.")] = Path("fedonce-audit"),
    epsilon: Annotated[float, typer.Option(help="The budget of the models that are audited.")] = 2.0,
    models: Annotated[int, typer.Option(help="Models to train for the membership test, each kind.", min=4)] = 16,
    canaries: Annotated[int, typer.Option(help="Canaries in each training.", min=100)] = 5000,
    seed: Annotated[int, typer.Option(help="Seed of data, weights and coins.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Try to break the privacy claims: sums, noise, samples and bits of trainings, canaries, answers for each row, membership.

    Beside each result stands how probably too little noise by a factor of two would have been seen.

    The data are part of scikit-learn: nothing is downloaded. Takes a minute or two on two cores.
    """
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file; name a folder.", param_hint="--out")
    if not 0 < epsilon <= 20:
        raise parameter_error("fedonce privacy audit", "--epsilon", "above 0 and at most 20", epsilon)
    from fedonce.assess import audit_report
    from fedonce.report import pictures

    pictures.check_installed()
    progress = Printer(stderr=True, quiet=quiet)
    findings = audit_report.run(epsilon, models, canaries, seed, progress.print)
    path = audit_report.write(findings, out)
    if as_json:
        typer.echo(to_json({"report": str(path), **findings.figures()}))
        return
    for line in findings.lines():
        say(line)
    typer.echo(f"report: {path}")


def show(ledger: Ledger, title: str) -> None:
    """Print a ledger as a table."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    columns = ("party", "what", "noise", "sampling", "steps", "party alone")
    for column in columns:
        table.add_column(column, justify="left" if column in ("party", "what") else "right")
    lines = ledger.rows()
    for line in lines[:-1]:
        table.add_row(*(_shown(line[name], name) for name in columns))
    Printer().print(table)
    total = lines[-1]
    mark = f" ({total['mark']}: not a guarantee)" if "mark" in total else ""
    typer.echo(f"total: epsilon {total['epsilon']:.4g} at delta {ledger.delta:.3g} ({total['what']}){mark}")


def _shown(value: Any, name: str) -> str:
    if value is None:
        return "" if name == "party alone" else "-"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _names(parties: str, owner: str) -> list[str]:
    if parties.isdigit():
        if int(parties) < 1:
            raise parameter_error(owner, "--parties", "a number above 0, or names", parties)
        return [f"party{j}" for j in range(1, int(parties) + 1)]
    names = [name.strip() for name in parties.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise parameter_error(owner, "--parties", "a number, or different names as in bank,shop", parties)
    return names


def _counts(rows: str, names: list[str], owner: str) -> dict[str, int]:
    parts = rows.split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts) or len(parts) not in (1, len(names)):
        raise InputError(
            f"The '--rows' option of {owner} must be a number above 0, or {len(names)} of them. Got {rows!r}."
        )
    counts = [int(part) for part in parts] * (len(names) if len(parts) == 1 else 1)
    return dict(zip(names, counts, strict=True))
