from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fedonce

SOURCE = Path(fedonce.__file__).parent

# Imports point one way: a module may import those of its own layer or of lower ones.
LAYERS = [
    {"errors", "locks"},
    {"names", "sizes"},
    {"disk", "envelope", "extras"},
    {"ids", "partition", "targets", "randomness", "tables", "mistyped"},
    {"message", "crypto", "alignment", "tablefiles"},
    {"datasets", "matching", "reading", "drift", "presence"},
    {"preparation", "networks", "closedform", "privacy"},
    {"storage", "leakage"},
    {"progress", "training"},
    {"learners"},
    {"aggregation"},
    {"private"},
    {"party"},
    {"multiround"},
    {"protocol", "engine", "presets"},
    {"estimators"},
    {"demo", "importance", "inspection", "onnx_export"},
    {"report", "evaluation"},
    {"privacy/audit", "audit_report"},
    {"terminal"},
    {"workflow", "cli_options"},
    {"federation", "engine/nvflare"},
    {"cli_guest", "cli_host", "cli_privacy", "cli_keys", "cli_align", "cli_export", "cli_federation_kits"},
    {"cli_federation", "cli_federation_demo"},
    {"cli"},
]


def module_of(path: Path) -> str:
    if path.match("privacy/audit.py"):  # it tests what the rest builds on `privacy`
        return "privacy/audit"
    if path.match("engine/nvflare.py"):  # it asks by `federation`, which builds on the rest
        return "engine/nvflare"
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fedonce":
            below = node.module.split(".")[1:]
            names |= {below[0]} if below else {alias.name for alias in node.names if not alias.name.startswith("__")}
    return names


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    own = module_of(path)
    if own == "__init__":
        return
    level = next(position for position, layer in enumerate(LAYERS) if own in layer)
    allowed = set().union(*LAYERS[: level + 1])
    assert imported(path) <= allowed


def test_every_public_name_can_be_imported():
    for name in fedonce.__all__:
        assert getattr(fedonce, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fedonce.nothing  # noqa: B018
    assert "FedOnceClassifier" in dir(fedonce)


def test_no_pickle_and_no_torch_load():
    for path in SOURCE.rglob("*.py"):
        source = path.read_text()
        assert "pickle.load" not in source
        assert "torch.load" not in source
