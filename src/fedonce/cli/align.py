"""`fedonce align`: which rows do host and guests have in common, in three files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedonce.cli.help import command, group
from fedonce.cli.terminal import AsJson
from fedonce.errors import InputError, parameter_error

if TYPE_CHECKING:
    from fedonce.messages.keys import PublicKey
    from fedonce.rows.alignment import Matched, Request
    from fedonce.rows.ids import Ids

align = group(
    "Find the rows that host and guests share, without showing anybody the ids that only the other has.",
    "fedonce align request bank.csv --id customer --name bank --run loans --out loans.request",
)

TableFile = Annotated[Path, typer.Argument(help="Your table: CSV, TSV, Parquet or Arrow.")]
IdColumn = Annotated[str, typer.Option("--id", help="Column of ids.")]
Normalise = Annotated[
    str,
    typer.Option(
        "--normalise-ids", help="How ids are made alike first: some of trim,lower,nfkc. The same at all parties."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")]


@command(align, "fedonce align request bank.csv --id customer --name bank --run loans --out loans.request")
def request(
    table: TableFile,
    id_column: IdColumn,
    name: Annotated[str, typer.Option(help="Your name, the host's.")],
    run: Annotated[str, typer.Option(help="Name of the training.")],
    out: Annotated[Path, typer.Option(help="The request, for the guests.")],
    state: Annotated[Path | None, typer.Option(help="What stays here until `finish`. Default: OUT.state.")] = None,
    reveal: Annotated[str, typer.Option(help="Who is to learn which rows match: both, or host.")] = "both",
    normalise: Normalise = "",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Host, first step: write a request for the guests. The same file goes to every guest.

    A guest learns from it how many ids you ask about, and none of them; with --reveal both it learns later which of its rows
    you have. You will learn which of your ids it has, and how many rows it has. Nobody learns ids that only the other has, as
    long as both follow the protocol: Diffie-Hellman set intersection on a NIST curve, in the semi-honest model.

    The state file holds the key to the answers: it stays with you, and nobody else may have it.
    """
    from fedonce.rows import alignment, ids
    from fedonce.system.disk import write_pair

    state = out.with_name(f"{out.name}.state") if state is None else state
    if state.resolve() == out.resolve():
        raise parameter_error(
            "fedonce align request", "--state", "another file than --out: it must stay here", str(state)
        )
    _refuse_existing((out, state), force)
    own = _ids(table, id_column, name)
    asked, kept = alignment.request(own, name, run, reveal, ids.parse_forms(normalise))
    write_pair(state, kept, out, asked)
    figures = {
        "host": name,
        "run": run,
        "reveal": reveal,
        "ids": len(own),
        "request": str(out),
        "bytes": len(asked),
        "state": str(state),
    }
    _tell(
        figures,
        as_json,
        [
            f"request  {out}  {len(asked):,} bytes, {len(own):,} ids as points that only you can open; send it to the guests",
            f"state    {state}  stays here for `fedonce align finish`; give it to nobody",
        ],
    )


@command(
    align,
    "fedonce align respond shop.csv --id client_no --name shop --request loans.request --out shop.response",
)
def respond(
    table: TableFile,
    id_column: IdColumn,
    name: Annotated[str, typer.Option(help="Your name, the guest's.")],
    request: Annotated[Path, typer.Option(help="The host's file.")],
    out: Annotated[Path, typer.Option(help="The response, for the host.")],
    at_most: Annotated[int | None, typer.Option(help="Refuse to answer about more ids than this.", min=1)] = None,
    normalise: Normalise = "",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Guest, second step: answer a host's request.

    The host learns which of the ids it asks about you have, and how many rows you have; not your other ids, as long as both
    follow the protocol (Diffie-Hellman set intersection on a NIST curve, in the semi-honest model).

    You learn how many ids it asks about and, where the request says `both`, later which of your rows the host has. A dishonest
    host can ask about ids that it does not have: --at-most limits how many. Answering again and again adds up.
    """
    from fedonce.messages.envelope import read_bytes
    from fedonce.rows import alignment, ids
    from fedonce.system.disk import write_file

    _refuse_existing((out,), force)
    data = read_bytes(request, "alignment request")
    asked = alignment.Request.from_bytes(data)
    own = _ids(table, id_column, name)
    answer = alignment.respond(data, own, name, ids.parse_forms(normalise), at_most)
    write_file(out, answer)
    figures = {
        "host": asked.host,
        "guest": name,
        "run": asked.run,
        "reveal": asked.reveal,
        "asked": len(asked.points),
        "rows": len(own),
        "response": str(out),
        "bytes": len(answer),
    }
    _tell(figures, as_json, _respond_lines(asked, out, len(answer), len(own)))


@command(
    align,
    "fedonce align finish bank.csv --id customer --state loans.request.state --response shop.response --out matched/",
)
def finish(
    table: TableFile,
    id_column: IdColumn,
    state: Annotated[Path, typer.Option(help="What `request` left here.")],
    response: Annotated[list[Path], typer.Option(help="A guest's file; once for each guest.")],
    out: Annotated[Path, typer.Option(help="Folder for the results.")],
    secret: Annotated[
        Path | None,
        typer.Option(help="The parties' secret, to hash the ids with in the rows files. Default: a salt in each."),
    ] = None,
    seal_to: Annotated[
        list[str] | None, typer.Option(help="NAME=KEY: also write a guest's rows file sealed to its public key.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Host, third step: see which rows each guest has and, with `both`, write the rows that you agree on.

    You learn which of your ids a guest has, and how many rows it has; not its other ids. With `both`, DIR/GUEST.rows tells the
    guest which of its rows you have; both use it (`fedonce guest fit --rows`, `fedonce host fit --rows`). With `host`,
    DIR/GUEST.matched.csv lists your ids that match, for you alone, and the guest sends keyed hashes of all of its rows
    (`fedonce guest fit --secret`).

    Look at the share before you send a rows file: a dishonest guest can make all of your rows match, and then try ids against
    the file.
    """
    from fedonce.messages import keys as crypto
    from fedonce.messages.envelope import read_bytes
    from fedonce.rows import alignment
    from fedonce.system.disk import make_folder

    kept = read_bytes(state, "alignment state")
    asked = alignment.State.from_bytes(kept).asked
    sealing = _sealing(seal_to or [], asked.reveal)
    shared = None if secret is None else crypto.read_secret(secret)
    own = _ids(table, id_column, asked.host)
    found = [alignment.finish(kept, read_bytes(path, "alignment response"), own) for path in response]
    _check_guests(found, sealing)
    files: dict[Path, bytes] = {}
    for matched in found:
        files |= _results(out, matched, asked, own, id_column, shared, sealing.get(matched.guest))
    make_folder(out)
    _write_all(files, force)
    figures = [_figures(matched, len(own)) for matched in found]
    lines = [_line(matched, len(own)) for matched in found] + [f"wrote    {path}" for path in files]
    _tell(
        {
            "host": asked.host,
            "run": asked.run,
            "reveal": asked.reveal,
            "guests": figures,
            "files": list(map(str, files)),
        },
        as_json,
        [*lines, *_next(asked.reveal, shared is not None)],
    )


def _results(
    out: Path, matched: Matched, asked: Request, own: Ids, id_column: str, secret: bytes | None, key: PublicKey | None
) -> dict[Path, bytes]:
    """Return what `finish` writes about one guest: paths and their bytes."""
    from fedonce.messages import keys as crypto
    from fedonce.rows import alignment

    common = own[matched.positions]
    if asked.reveal == "host":
        return {out / f"{matched.guest}.matched.csv": _csv(id_column, common)}
    rows = alignment.agreed_rows(common, asked.host, matched.guest, asked.run, asked.forms, secret, matched.salt)
    files = {out / f"{matched.guest}.rows": rows}
    if key is not None:
        files[out / f"{matched.guest}.rows.sealed"] = crypto.seal(rows, key)
    return files


def _csv(column: str, ids: Sequence[str] | Ids) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[column], *([each] for each in ids)])
    return text.getvalue().encode("utf-8", "surrogatepass")


def _write_all(files: dict[Path, bytes], force: bool) -> None:
    """Write files, none of them over another content; a sealed one is other bytes each time, and follows its rows file."""
    from fedonce.system.disk import write_file

    for path, data in files.items():
        follows = path.suffix == ".sealed" and _holds(path.with_suffix(""), files[path.with_suffix("")])
        if not force and path.exists() and not follows and not _holds(path, data):
            raise InputError(f"{path} exists already, with another content; name another folder, or say --force.")
    for path, data in files.items():
        if not _holds(path, data):
            path.with_name(f"{path.name}.sealed").unlink(missing_ok=True)  # of other rows
            write_file(path, data, private=True)


def _holds(path: Path, data: bytes) -> bool:
    """Tell whether a file is there with this content."""
    return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data


def _check_guests(found: Sequence[Matched], sealing: dict[str, PublicKey]) -> None:
    """Refuse names that are no file names (they come from outside), two answers of a guest, keys of nobody."""
    from fedonce.errors import MessageError
    from fedonce.messages.keys import is_file_name

    names = [matched.guest for matched in found]
    for name in names:
        if not is_file_name(name):
            raise MessageError(
                f"The name of party {name!r} cannot be a file's; let it respond with a plain one, as in shop."
            )
        if names.count(name) > 1:
            raise MessageError(
                f"Two responses are of party {name!r}; give one, or let the other party use another name."
            )
    for name in sealing:
        if name not in names:
            raise InputError(f"The '--seal-to' option names {name!r}, and the responses are of {', '.join(names)}.")


def _sealing(texts: Sequence[str], reveal: str) -> dict[str, PublicKey]:
    """Read NAME=KEY options."""
    from fedonce.messages.keys import read_public

    keys: dict[str, PublicKey] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not (name and equals and path) or name in keys:
            raise parameter_error(
                "fedonce align finish", "--seal-to", "NAME=KEY, once a guest, as in shop=shop.pub", text
            )
        keys[name] = read_public(path)
    if keys and reveal == "host":
        raise InputError(
            "The '--seal-to' option is for rows files, and this request reveals matches to the host only; leave it out."
        )
    return keys


def _ids(table: Path, column: str, party: str) -> Ids:
    from fedonce.data.files import read_table

    ids = read_table(table, id=column, columns=[], party=party).ids
    assert ids is not None
    return ids


def _refuse_existing(paths: Sequence[Path], force: bool) -> None:
    """Every run makes other bytes: what is there already would be lost, and perhaps it was sent."""
    for path in paths:
        if path.exists() and not force:
            raise InputError(f"{path} exists already; name another file, or say --force.")


def _respond_lines(asked: Request, out: Path, size: int, rows: int) -> list[str]:
    learn = "which of those you have, and how many rows you have"
    then = (
        "you will learn which of your rows the host has: it sends a rows file for `fedonce guest fit --rows`"
        if asked.reveal == "both"
        else "you will not learn what matches: send keyed hashes of all rows (`fedonce guest fit --secret`)"
    )
    return [
        f"{asked.host!r} asks about {len(asked.points):,} ids for run {asked.run!r}; it will learn {learn}",
        then,
        f"response  {out}  {size:,} bytes, {rows:,} ids as points; send it to the host",
    ]


def _figures(matched: Matched, rows: int) -> dict[str, Any]:
    common = len(matched.positions)
    return {"guest": matched.guest, "common": common, "share": common / rows, "guest_rows": matched.held}


def _line(matched: Matched, rows: int) -> str:
    common = len(matched.positions)
    return f"{matched.guest}: {common:,} common rows, {100 * common / rows:.1f} % of your {rows:,}; it has {matched.held:,}"


def _next(reveal: str, secret: bool) -> list[str]:
    if reveal == "host":
        return ["matched ids are for you alone; guests send keyed hashes of all rows (`fedonce guest fit --secret`)"]
    lines = [
        "give each guest its own rows file (`fedonce guest fit --rows`), and keep it for `fedonce host fit --rows`"
    ]
    if not secret:
        lines.append(
            "whoever has a rows file can try ids against it: send it sealed (--seal-to), or hash with a secret (--secret)"
        )
    return lines


def _tell(figures: dict[str, Any], as_json: bool, lines: Sequence[str]) -> None:
    typer.echo(json.dumps(figures, indent=2) if as_json else "\n".join(lines))
