"""Runs npf over several experiments in one process; run by the interpreter of its environment.

npf takes seconds to start, and an experiment of --smoke less. What is to be done comes as JSON
on standard input; see `run`.
"""

import json
import os
import sys
import time
import traceback


def arguments(job, file, result):
    # npf finds `%include` beside the file; results are read from the table that it writes.
    words = ["npf", "local", "--test", file, "--no-graph", "--no-colors", "--keep-parameters",
             "--csv", result, "--config", "n_runs=1", "--variables", f"BENCH={job['bench']}",
             f"ROOT={job['root']}", *job["set"], "--search-path", job["search"]]
    if job["smoke"]:
        words += ["--tags", "smoke"]
    if job["cluster"]:
        words += ["--cluster", *job["cluster"]]
    return words


def in_child(npf, words):
    """The exit status of npf, which sets what a process may set once (multiprocessing's method)."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.argv = words
    try:
        code = npf()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def main():
    job = json.load(sys.stdin)
    sys.stdin = open(os.devnull)
    from npf.tests.main import main as npf

    failed = []
    for number in range(job["rounds"]):
        for file in job["files"]:
            name = os.path.splitext(os.path.basename(file))[0]
            begin = time.monotonic()
            print(f"== {name}, round {number + 1} of {job['rounds']}", flush=True)
            words = arguments(job, file, os.path.join(job["work"], f"{name}-{number}.csv"))
            code = in_child(npf, words)
            print(f"== {name}: {time.monotonic() - begin:.0f} s", flush=True)
            if code:
                failed.append(name)
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")


if __name__ == "__main__":
    main()
