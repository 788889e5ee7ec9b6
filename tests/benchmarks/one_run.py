"""A run in a process of its own: how long its program takes to compile, and what memory the process takes at most.

usage: python one_run.py <algorithm>; prints JSON.
"""

import json
import resource
import sys
import time
from pathlib import Path

from tests.benchmarks.runs import UPDATES, compiled

STATUS = Path("/proc/self/status")


def main(algorithm: str) -> None:
    start = time.perf_counter()
    subject = compiled(algorithm, scan=UPDATES[algorithm])
    seconds = time.perf_counter() - start
    subject()
    print(json.dumps({"compile_seconds": seconds, "peak_megabytes": peak_megabytes()}))


def peak_megabytes() -> float:
    """Of this process; on Linux, `getrusage` would count what its parent had taken when it started it."""
    if STATUS.exists():
        return int(STATUS.read_text().partition("VmHWM:")[2].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS


if __name__ == "__main__":
    main(sys.argv[1])
