"""Install a wheel into a clean environment in a temporary folder, and use it: version, every module, the demonstration.

    python .ci/check_wheel.py dist/fedonce-0.1.0-py3-none-any.whl [--no-demo]

Nothing of the checkout is on the path of what runs. Needs a package index; takes a minute or two.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
IMPORTS = """
import importlib, pkgutil, fedonce
names = [each.name for each in pkgutil.walk_packages(fedonce.__path__, "fedonce.") if "__main__" not in each.name]
names = [name for name in names if not name.startswith("fedonce.federation.flare.")]  # needs the extra nvflare
for name in names:
    importlib.import_module(name)
print(f"{len(names)} modules of {fedonce.__file__}")
"""
PRESETS = "from fedonce import FedOnceClassifier, presets; print(FedOnceClassifier(**presets.load('mnist')))"


def run(*command: str | Path, folder: Path) -> str:
    """Run a command outside of the checkout, show what it says, and stop where it fails."""
    print("$", *command, flush=True)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ended = subprocess.run([str(each) for each in command], cwd=folder, env=clean, capture_output=True, text=True)
    print(ended.stdout + ended.stderr, flush=True)
    if ended.returncode:
        raise SystemExit(f"{command[0]} ended with exit code {ended.returncode}")
    return ended.stdout


def main() -> None:
    """Check the wheel that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--no-demo", action="store_true", help="leave out the demonstration")
    arguments = parser.parse_args()
    wheel = arguments.wheel.resolve(strict=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "environment", with_pip=True)
        programs = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
        pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run(*pip, "-c", CONSTRAINTS, f"fedonce[report] @ {wheel.as_uri()}", folder=folder)
        installed = time.monotonic()
        version = run(programs / "fedonce", "--version", folder=folder).split()[-1]
        if f"-{version}-" not in wheel.name:
            raise SystemExit(f"{wheel.name} has version {version}")
        where = run(programs / "python", "-c", IMPORTS, folder=folder)
        if "environment" not in where:
            raise SystemExit(f"not the installed one was imported: {where}")
        run(programs / "python", "-c", PRESETS, folder=folder)
        if "doctor" in run(programs / "fedonce", "--help", folder=folder):
            run(programs / "fedonce", "doctor", folder=folder)
        if not arguments.no_demo:
            run(programs / "fedonce", "demo", "--out", "demo", folder=folder)
            if not (folder / "demo" / "report.html").is_file():
                raise SystemExit("the demonstration wrote no report.html")
        print(f"{wheel.name} works: {time.monotonic() - installed:.0f} s after its installation")


if __name__ == "__main__":
    sys.exit(main())
