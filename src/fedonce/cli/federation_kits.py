"""`fedonce federation init`, `start`, `status`, `stop`: the kits of the parties, and the processes that run from them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedonce.cli.help import command, group
from fedonce.cli.options import Drop, Secret, Types, pairs
from fedonce.cli.terminal import AsJson, Quiet, progress, show, to_json
from fedonce.errors import InputError
from fedonce.system.text import names

if TYPE_CHECKING:
    from fedonce.federation.flare.kits import Kit
    from fedonce.federation.flare.sites import Site

federation = group("Parties as machines, on NVIDIA FLARE.", "fedonce federation demo")

KitFolder = Annotated[Path, typer.Argument(metavar="KIT", help="The party's kit.", show_default=False)]


@command(federation, "fedonce federation init --server fed.bank.example:8002 --host bank --guests shop,utility")
def init(
    server: Annotated[
        str,
        typer.Option(metavar="ADDRESS[:PORT]", help="DNS name or IPv4 address under which guests reach the host."),
    ],
    host: Annotated[str, typer.Option(help="Name of the host, which has the labels.")],
    guests: Annotated[str, typer.Option(help="Names of the guests, with commas.")],
    out: Annotated[Path, typer.Option(help="Folder for the kits; the same again to add guests.")] = Path("kits"),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a kit for each party: keys, certificates, where the server is. Again with further guests: kits for these only.

    Each kit is its party's identity: send it in a way that only the party can read. The host's kit also holds the authority
    that signs certificates, and stays with the host.
    """
    from fedonce.federation.flare.kits import PORT, make_kits

    address, colon, port = server.partition(":")
    if colon and not port.isdecimal():
        raise InputError(f"The server must be like fed.bank.com or fed.bank.com:8002. Got {server!r}.")
    asked = names(guests)
    with progress(quiet) as tell:
        tell("making keys and certificates")
        made = make_kits(address, host, asked, out, int(port) if colon else PORT)
    kits = {path.name: path for path in made}
    if as_json:
        typer.echo(to_json({"kits": kits, "unchanged": [name for name in (host, *asked) if name not in kits]}))
        return
    if not made:
        typer.echo(f"all of them have kits in {out} already; nothing was changed")
        return
    for name, path in kits.items():
        typer.echo(f"{path}  {'stays here' if name == host else f'for {name}: send it so that only they can read it'}")
    typer.echo("")
    typer.echo(f"here           fedonce federation start {out / host}")
    typer.echo("at each guest  fedonce federation start KIT --data TABLE --id COLUMN")
    typer.echo("               what a guest allows is in policy.toml of its kit: it reads it before it starts")


@command(
    federation,
    "fedonce federation start kits/bank",
    "fedonce federation start shop --data shop.csv --id client_no --foreground",
)
def start(
    kit: KitFolder,
    data: Annotated[Path | None, typer.Option(help="A guest's table to learn from; kept for the next start.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="Its column of ids.")] = None,
    predict_data: Annotated[
        Path | None, typer.Option(help="Table with the rows to be predicted. Default: the same table.")
    ] = None,
    drop: Drop = None,
    types: Types = None,
    secret: Secret = None,
    public: Annotated[
        Path | None, typer.Option(help="With a budget: TOML or JSON of what is public of the columns.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="What this guest allows. Default: policy.toml of the kit.")
    ] = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay here until it is stopped (Ctrl-C).")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Start the party of a kit: the host's server, or a guest that answers what its policy allows.

    A guest says at its first start which table it takes part with: --data FILE --id COLUMN. A guest whose host is not there yet
    keeps trying.
    """
    from fedonce.federation.flare import sites
    from fedonce.federation.flare.kits import open_kit

    opened = open_kit(kit)
    given = {"--predict-data": predict_data, "--drop": drop, "--type": types, "--secret": secret}
    given |= {"--public": public, "--policy": policy}
    if data is not None and id is not None:
        sites.configure_guest(
            opened,
            data,
            id,
            predict_data,
            drop=names(drop),
            types=pairs(types, "--type", "COLUMN=number"),
            secret=secret,
            public=public,
            policy=policy,
        )
    elif data is not None or id is not None or any(given.values()):
        options = [name for name, value in {"--data": data, "--id": id, **given}.items() if value]
        raise InputError(
            f"A guest's table is told as a whole: --data FILE --id COLUMN, and the rest. Got {' '.join(options)}."
        )
    with progress(quiet) as tell:
        site = sites.start(opened, foreground, tell=tell)
    if as_json:
        typer.echo(to_json(site.to_json()))
    elif foreground:
        typer.echo(f"{site.name} has ended")
    else:
        typer.echo(f"{site.name} runs as process {site.pid}: {site.note}")
        _say_next(opened, site)


@command(federation, "fedonce federation status kits/bank")
def status(kit: KitFolder, as_json: AsJson = False) -> None:
    """Say whether the party of a kit runs and is connected; for the host also which guests are there, and its jobs.

    For a guest also what it has answered, and how much of what its policy allows that is.
    """
    from fedonce.federation.flare import sites
    from fedonce.federation.flare.kits import open_kit

    site = sites.status(open_kit(kit))
    if as_json:
        typer.echo(to_json(site.to_json()))
        return
    figures: dict[str, Any] = {site.role: site.name, "server": site.server, "state": site.note}
    if site.since is not None:
        figures |= {"process": str(site.pid), "since": f"{datetime.fromtimestamp(site.since):%Y-%m-%d %H:%M:%S}"}
    for label, each in (
        ("guests", site.guests),
        ("absent", site.absent),
        ("running", site.running),
        ("queued", site.queued),
    ):
        if each is not None:
            figures[label] = ", ".join(each) or "-"
    show(figures | _used(site.allowance))


def _used(allowance: dict[str, Any] | None) -> dict[str, str]:
    """Say how much a guest has answered, of what its policy allows."""
    if allowance is None:
        return {}
    runs = [f"{run}: {_of_run(allowance, of_run)}" for run, of_run in allowance["runs"].items()]
    used = {
        "learnt": f"{allowance['learnings']} of {allowance['max_learnings_per_year']} learnings in the last 365 days",
        "runs": "; ".join(runs) or "-",
        "values": f"{allowance['values_per_row']} of {allowance['max_values_per_row']} per row, over all runs",
    }
    if allowance["local_epsilon_per_row"] or allowance["max_local_epsilon"]:
        most = "no limit" if allowance["max_local_epsilon"] is None else f"{allowance['max_local_epsilon']:g} allowed"
        used["local epsilon"] = f"{allowance['local_epsilon_per_row']:g} at most for a row in the last 365 days, {most}"
    for number, answer in enumerate(reversed(allowance["last"])):
        used["last" if not number else " " * number] = _answer(answer)
    return used


def _of_run(allowance: dict[str, Any], of_run: dict[str, int]) -> str:
    rounds = f", {of_run['rounds']} of {allowance['max_rounds']} rounds" if of_run["rounds"] else ""
    return f"{of_run['learnings']} of {allowance['max_learnings']}{rounds}"


def _answer(answer: dict[str, Any]) -> str:
    """Return one line about an answer."""
    when = f"{datetime.fromisoformat(answer['time']).astimezone():%Y-%m-%d %H:%M}"
    rows = "" if answer["rows"] is None else f", {answer['rows']:,} rows"
    values = (
        "" if answer["dim"] is None else f" x {answer['dim']} values" if rows else f", {answer['dim']} values per row"
    )
    size = "" if answer["bytes"] is None else f", {answer['bytes']:,} bytes"
    rebuilt = f", rebuilt to {answer['rebuilt']['best']:.2f}" if answer["rebuilt"] else ""
    epsilon, _, label = (answer["hints"] or "").partition(" ")
    hinted = f", with hints at {label!r}, label epsilon {epsilon}" if label else ""
    return f"{when}  {answer['what']}, run {answer['run']}{rows}{values}{size}{rebuilt}{hinted}"


@command(federation, "fedonce federation stop kits/bank")
def stop(kit: KitFolder, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Stop the party of a kit, and what it is at work on. Nothing that was learnt is lost."""
    from fedonce.federation.flare import sites
    from fedonce.federation.flare.kits import open_kit

    opened = open_kit(kit)
    with progress(quiet) as tell:
        tell(f"stopping {opened.name}")
        stopped = sites.stop(opened)
    if as_json:
        typer.echo(to_json({"name": opened.name, "stopped": stopped}))
    else:
        typer.echo(f"{opened.name} {'has ended' if stopped else 'did not run'}")


def _say_next(kit: Kit, site: Site) -> None:
    typer.echo(f"log     {kit.log}")
    typer.echo(f"state   fedonce federation status {kit.path}")
    typer.echo(f"end     fedonce federation stop {kit.path}")
