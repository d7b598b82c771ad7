"""How long the README's quickstart takes, from `python` to its last line, import included.

    python -m benchmarks.speed.quickstart [--repeat 3] [--before CHECKOUT]

Each time a fresh interpreter runs the first Python block of README.md as it stands. One run more is timed part by part: the
imports, the guests, and the host's models by name. `--before` names another checkout of the project, whose own quickstart is run
in turn with ours: what is reported is also the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "quickstart.json"


def quickstart(checkout: Path) -> str:
    """Return the first Python block of a checkout's README."""
    found = re.search(r"```python\n(.*?)```", (checkout / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise SystemExit(f"{checkout / 'README.md'} has no Python block")
    return found.group(1)


def seconds(code: str, checkout: Path) -> float:
    """Return how long a fresh interpreter takes for some code, with the library of a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    started = time.perf_counter()
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, check=True, capture_output=True)
    return time.perf_counter() - started


def imports(code: str) -> str:
    """Return the lines of some code that import."""
    return "\n".join(line for line in code.splitlines() if line.startswith(("from ", "import ")))


class Parts:
    """Seconds by part; of calls within calls, the outermost of each kind counts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._within: set[str] = set()

    def timed(self, call: Callable[..., Any], kind: str, name: str) -> Callable[..., Any]:
        """Return a call that is counted."""

        @wraps(call)
        def counted(*given: Any, **named: Any) -> Any:
            if kind in self._within:
                return call(*given, **named)
            self._within.add(kind)
            started = time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                self._within.remove(kind)
                self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

        return counted


def measure_parts(code: str) -> dict[str, float]:
    """Run the quickstart in this process, and return the seconds of its parts."""
    parts = Parts()
    parts.timed(lambda: exec(imports(code), {}), "import", "import")()
    from fedonce import Host
    from fedonce.engine.local import LocalEngine
    from fedonce.hostmodels import HOST_MODELS

    LocalEngine.learn = parts.timed(LocalEngine.learn, "guests", "guests")  # type: ignore[method-assign]
    Host.aggregate = parts.timed(Host.aggregate, "host", "host")  # type: ignore[method-assign]
    for name in ("tabm", "trees", "mlp", "linear", "network"):
        for way in ("fit", "fit_watched", "fit_all"):
            kind = HOST_MODELS[name]
            setattr(kind, way, parts.timed(getattr(kind, way), "model", f"host: {name}"))
    parts.timed(lambda: exec(code, {}), "rest", "all but import")()
    return parts.seconds


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--parts", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    code = quickstart(ROOT)
    if arguments.parts:
        print(json.dumps(measure_parts(code)))
        return
    checkouts = {"now": ROOT} | ({} if arguments.before is None else {"before": arguments.before.resolve()})
    runs: dict[str, list[float]] = {name: [] for name in checkouts}
    for _ in range(arguments.repeat):
        for name, checkout in checkouts.items():
            runs[name].append(seconds(quickstart(checkout), checkout))
    importing = [seconds(imports(code), ROOT) for _ in range(arguments.repeat)]
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.quickstart", "--parts"]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    total = {name: statistics.median(each) for name, each in runs.items()}
    result: dict[str, Any] = {"cores": os.cpu_count(), "total": total["now"], "import": statistics.median(importing)}
    result |= {"runs": runs["now"], "parts": json.loads(told)}
    if "before" in total:
        result |= {"before": total["before"], "ratio": total["now"] / total["before"]}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
