"""A run in a process of its own: how long its program takes to compile, and what memory the process takes at most.

usage: python one_run.py <algorithm>; prints JSON.
"""

import json
import resource
import sys
import time

from tests.benchmarks.runs import UPDATES, compiled


def main(algorithm: str) -> None:
    start = time.perf_counter()
    subject = compiled(algorithm, scan=UPDATES[algorithm])
    seconds = time.perf_counter() - start
    subject()
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    print(json.dumps({"compile_seconds": seconds, "peak_megabytes": kilobytes / (2**20 if sys.platform == "darwin" else 2**10)}))


if __name__ == "__main__":
    main(sys.argv[1])
