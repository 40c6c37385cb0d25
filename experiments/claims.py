"""What the papers say against what was measured here: docs/results.md."""

import csv
import json
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
PAPERS = HERE / "papers.json"
# So far from the paper's value it still counts as the same.
TOLERANCE = 0.1
VERDICTS = ["worse", "better", "reproduced", "cannot be tested here", "not measured yet"]


def papers():
    return json.loads(PAPERS.read_text())


def directories():
    """Results of runs, the oldest first."""
    files = (HERE / "results").glob("*/machine.json")
    dates = {file.parent: json.loads(file.read_text())["date"] for file in files}
    return sorted(dates, key=lambda directory: (dates[directory], directory))


def table(directory, experiment):
    file = directory / f"{experiment}.csv"
    return list(csv.DictReader(file.open())) if file.exists() else []


def same(value, wanted):
    try:
        return float(value) == float(wanted)
    except (TypeError, ValueError):
        return value == wanted


def select(rows, quantity):
    """Values of a quantity, with what they are paired by: the round and all other variables."""
    where, name = quantity.get("where", {}), quantity["result"]
    values = {}
    for row in rows:
        if row.get(name) and all(same(row.get(key), value) for key, value in where.items()):
            point = (row["round"], *(row.get(key) for key in quantity.get("by", [])))
            value = float(row[name])
            # A time for each packet as a rate, say.
            values[point] = quantity["reciprocal"] / value if "reciprocal" in quantity else value
    return values


def measured(rows, claim):
    """The values of all rounds: of a quantity, or of one over another in the same round."""
    values = select(rows, claim["ours"])
    if "over" not in claim:
        return list(values.values())
    base = select(rows, claim["over"])
    return [value / base[point] for point, value in values.items() if base.get(point)]


def compare(claim, ours):
    """Ratio to the paper (above 1 is better here) and verdict."""
    low, high = claim["paper"] if isinstance(claim["paper"], list) else [claim["paper"]] * 2
    is_higher_better = claim["better"] == "higher"
    worst, best = (low, high) if is_higher_better else (high, low)

    def gain(reference):
        return ours / reference if is_higher_better else reference / ours

    if claim.get("is_bound"):
        return gain(worst), "reproduced" if gain(worst) >= 1 else "worse"
    if gain(worst) < 1 - TOLERANCE:
        return gain(worst), "worse"
    if gain(best) > 1 + TOLERANCE:
        return gain(best), "better"
    # Inside of the paper's range there is nothing to gain.
    return min(gain(worst), max(gain(best), 1.0)), "reproduced"


def number(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def paper_value(claim):
    value = claim.get("paper")
    if value is None:
        return "no value in the text"
    text = " to ".join(map(number, value)) if isinstance(value, list) else number(value)
    bound = {"higher": "at least ", "lower": "at most "}[claim["better"]]
    return f"{bound if claim.get('is_bound') else ''}{text} {claim['unit']}".strip()


def row(experiment, claim):
    """Verdict and line of the table."""
    source = f"{claim['source']} ([{experiment}](../experiments/{experiment}.npf))" \
        if experiment else claim["source"]
    if "cannot" in claim:
        return "cannot be tested here", \
            f"| {claim['claim']} | {source} | {paper_value(claim)} | - | - | {claim['cannot']} |"
    found = [(directory, measured(table(directory, experiment), claim))
             for directory in directories()]
    found = [(directory, values) for directory, values in found if values]
    if not found:
        return "not measured yet", \
            f"| {claim['claim']} | {source} | {paper_value(claim)} | - | - | not measured yet |"
    directory, values = found[-1]
    ours = median(values)
    ratio, verdict = compare(claim, ours)
    spread = f"{number(ours)} ({number(min(values))} to {number(max(values))})"
    remark = f"; {claim['remark']}" if "remark" in claim else ""
    where = f"[{directory.name}](../experiments/results/{directory.name}/report.html)"
    return verdict, (f"| {claim['claim']} | {source} | {paper_value(claim)} | {spread} | "
                     f"{ratio:.2f} | {verdict}{remark}; {where} |")


def every_claim():
    data = papers()
    for experiment, entry in data["experiments"].items():
        for claim in entry["claims"]:
            yield experiment, claim
    for claim in data["without_experiment"]:
        yield None, claim


def unanswered(names, results, is_smoke):
    """Claims for which the results of these experiments have no value. A short run leaves out
    points, so there only the names of results are looked at."""
    problems = []
    for experiment, claim in every_claim():
        if experiment not in names or "cannot" in claim:
            continue
        quantities = [claim[key] for key in ("ours", "over") if key in claim]
        names_there = {name for row in results[experiment] for name, value in row.items() if value}
        absent = [q["result"] for q in quantities if q["result"] not in names_there]
        if absent or not (is_smoke or measured(results[experiment], claim)):
            of = f" of {' '.join(absent)}" if absent else " in one round"
            problems.append(f"{experiment}: no value{of} for '{claim['claim']}'")
    return problems


HEAD = """# Results: the papers' claims, measured again

Written by `experiments/run --page` from `experiments/papers.json` and `experiments/results`, of which the newest run
with a value counts; the step `experiments` of `./check` compares. Do not edit it. [experiments/README.md](../experiments/README.md) says how to redo a row.

A ratio above 1 is in favour of Thruway: more of what should be much, less of what should be little.
Within a tenth of the paper's value the verdict is *reproduced*. Our values are medians of all rounds, with
the least and the greatest; the two sides of a quotient were measured in the same round. The machines differ from the
papers', so absolute numbers say less than quotients.

"""


def page():
    lines = [row(experiment, claim) for experiment, claim in every_claim()]
    text = HEAD + machines()
    for verdict in VERDICTS:
        some = [line for of, line in lines if of == verdict]
        if some:
            text += (f"\n## {verdict[0].upper()}{verdict[1:]}: {len(some)}\n\n"
                     "| claim | source | paper | ours | ratio | verdict |\n|---|---|---|---|---|---|\n"
                     + "\n".join(some) + "\n")
    return text


def machines():
    text = "| run | machine | load before, after | versions |\n|---|---|---|---|\n"
    for directory in directories():
        found = json.loads((directory / "machine.json").read_text())
        versions = found["versions"]
        text += (f"| {directory.name} | {found['cores']} cores of {found['processor']}, Linux "
                 f"{found['kernel']}{'; ' + found['remark'] if 'remark' in found else ''} | "
                 f"{found['load_before']}, {found['load_after']} | Thruway {versions['thruway']}, "
                 f"npf {versions['npf']} |\n")
    return text
