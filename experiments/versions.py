"""Instructions for a packet of two versions: npf builds both from git (repo/thruway.repo)."""

import csv
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# A version may take so many times the instructions of the one before.
MOST = 1.05


def git(*words):
    """What git says; empty where it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def before(reference):
    """The commit to compare with, and else the reason why there is none. Without a reference it is
    that of the last release."""
    name = reference or git("describe", "--tags", "--abbrev=0")
    if not name:
        return "", "there is no release yet (no tag); give a commit: experiments/run --compare COMMIT"
    commit = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return commit, "" if commit else f"git knows no commit '{name}'"


def measure(python, work, commits):
    """What npf measured of each: a row for each commit and case."""
    work.mkdir(parents=True, exist_ok=True)
    table = work / "instructions.csv"
    table.unlink(missing_ok=True)
    repositories = [f"thruway:{title}@{commit}" for title, commit in commits.items()]
    command = [
        python, "-c", "from npf.tests.main import main; main()", *repositories,
        "--test", str(HERE / "versions/instructions.npf"), "--search-path", str(HERE),
        "--build-path", f"{work}/", "--experiment-path", str(work), "--result-path", f"{work}/results",
        "--variables", f"ROOT={ROOT}", "--force-retest", "--no-graph", "--no-colors",
        "--keep-parameters", "--csv", str(table),
    ]
    kept = {key: value for key, value in os.environ.items() if key != "CARGO_TARGET_DIR"}
    # In one clone, one after the other: the second build finds what the first one made.
    subprocess.run(command, cwd=ROOT, env=dict(kept, MPLBACKEND="agg"), stdin=subprocess.DEVNULL)
    return list(csv.DictReader(table.open())) if table.exists() else []


def verdicts(rows):
    """A line for each case, and what is wrong."""
    counts = {(row["CASE"], row["build"]): float(row["y_INSTRUCTIONS"])
              for row in rows if row.get("y_INSTRUCTIONS")}
    lines, problems = [], []
    for case in sorted({case for case, _ in counts}):
        old, new = counts.get((case, "before")), counts.get((case, "now"))
        if old is None or new is None:
            problems.append(f"{case}: only one of the versions has a value")
            continue
        lines.append(f"{case}: {old:.1f} instructions a packet before, {new:.1f} now")
        if new > old * MOST:
            problems.append(f"{case}: {new / old:.2f} times the instructions, more than {MOST}")
    return lines, problems if counts else ["npf has no values; see above"]


def compare(python, work, reference):
    """Prints both counts of each case. What is wrong."""
    commit, problem = before(reference)
    if problem:
        return [problem]
    now = git("rev-parse", "HEAD")
    if commit == now:
        return [f"{reference or 'the last release'} is the commit that is checked out"]
    lines, problems = verdicts(measure(python, work, {"before": commit, "now": now}))
    print("\n".join(lines))
    return problems
