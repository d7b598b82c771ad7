"""`python -m benchmarks.datasets` is `python -m benchmarks.run datasets`."""

import sys

from benchmarks.run import main

if __name__ == "__main__":
    sys.exit(main(["datasets", *sys.argv[1:]]))
