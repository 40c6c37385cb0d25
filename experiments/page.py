"""The report of a run: one page of HTML that needs nothing else."""

import html
import json
import math
from collections import defaultdict
from statistics import median

import claims

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 340, 70, 20, 20, 50
# Most labels below the chart.
LABELS = 12
COLOURS = ["#4a7fb5", "#d98032", "#5a9e5a", "#c0504d", "#8064a2", "#4bacc6", "#7f7f7f", "#b8860b"]
STYLE = """body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}
pre,code{background:#f4f4f4}pre{padding:.5em;white-space:pre-wrap}
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}"""


def number_or_text(value):
    try:
        return float(value)
    except ValueError:
        return value


def series(rows, plot):
    """Name of a line to its points: x to all values."""
    lines = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for result in plot["results"]:
            if row.get(result):
                parts = [f"{key}={row[key]}" for key in plot.get("series", [])]
                lines[" ".join([result, *parts])][row[plot["x"]]].append(float(row[result]))
    return lines


def text(x, y, what, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(what)}</text>'


def ticks(top):
    """Round numbers from 0 on, of which the last is at least this; five to ten."""
    size = 10 ** math.floor(math.log10(top / 5))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor * 5 >= top / 2)
    return [step * number for number in range(math.ceil(top / step) + 1)]


def chart(rows, plot):
    """Our lines with their spread, and dashed what the paper says."""
    lines = series(rows, plot)
    places = sorted({x for points in lines.values() for x in points},
                    key=lambda x: (isinstance(number_or_text(x), str), number_or_text(x)))
    paper = plot.get("paper", [])
    marks = ticks(max([value for points in lines.values() for some in points.values()
                       for value in some] + [line["value"] for line in paper] + [0.0]) or 1.0)
    top = marks[-1]

    def across(x):
        return LEFT + (places.index(x) + 0.5) * (WIDTH - LEFT - RIGHT) / len(places)

    def up(y):
        return HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 18 * (len(lines) + len(paper))}" '
           f'width="{WIDTH}" font-family="sans-serif" font-size="12">']
    for mark in marks:
        y = up(mark)
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(text(LEFT - 6, y + 4, claims.number(mark), "end"))
    # So many that they do not overlap.
    step = -(-len(places) // LABELS)
    out += [text(across(x), HEIGHT - BOTTOM + 16, x) for x in places[::step]]
    out.append(text(WIDTH / 2, HEIGHT - BOTTOM + 34, f"{plot['x']}; y: {plot['unit']}"))
    legend = HEIGHT
    for at, (name, points) in enumerate(lines.items()):
        colour = COLOURS[at % len(COLOURS)]
        some = [(across(x), points[x]) for x in places if x in points]
        path = " ".join(f"{x:.1f},{up(median(values)):.1f}" for x, values in some)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<path d="M{x:.1f} {up(min(v)):.1f}V{up(max(v)):.1f}" stroke="{colour}"/>'
                f'<circle cx="{x:.1f}" cy="{up(median(v)):.1f}" r="3" fill="{colour}"/>'
                for x, v in some]
        out.append(f'<rect x="{LEFT}" y="{legend}" width="10" height="10" fill="{colour}"/>'
                   + text(LEFT + 16, legend + 10, f"ours: {name}", "start"))
        legend += 18
    for line in paper:
        y = up(line["value"])
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#000" '
                   'stroke-dasharray="6 4"/>')
        out.append(f'<path d="M{LEFT} {legend + 5}h12" stroke="#000" stroke-dasharray="6 4"/>'
                   + text(LEFT + 16, legend + 10, f"paper: {line['name']}", "start"))
        legend += 18
    return "\n".join([*out, "</svg>"])


def spread(rows, plot):
    """The plotted values as a table: median, least and greatest."""
    out = [f"<table><tr><th>line</th><th>{html.escape(plot['x'])}</th><th>median</th>"
           "<th>least</th><th>greatest</th></tr>"]
    for name, points in series(rows, plot).items():
        for x, values in points.items():
            cells = [name, x, *map(claims.number, (median(values), min(values), max(values)))]
            out.append("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in cells) + "</tr>")
    return "\n".join([*out, "</table>"])


def verdicts(name, rows):
    """What the paper says, what these rows have, and how the two compare."""
    out = ["<table><tr><th>claim</th><th>paper</th><th>here</th><th>verdict</th></tr>"]
    for claim in claims.papers()["experiments"][name]["claims"]:
        values = [] if "cannot" in claim else claims.measured(rows, claim)
        if values:
            here = f"{claims.number(median(values))} ({claims.number(min(values))} to " \
                f"{claims.number(max(values))})"
            verdict = claims.compare(claim, median(values))[1]
        else:
            here, verdict = "-", claim.get("cannot", "not measured")
        cells = [claim["claim"], claims.paper_value(claim), here, verdict]
        out.append("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in cells) + "</tr>")
    return "\n".join([*out, "</table>"])


def about(name):
    """Title and text of an experiment: its %info."""
    lines = (claims.HERE / f"{name}.npf").read_text().split("%info\n", 1)[1].split("\n%", 1)[0]
    title, _, rest = lines.strip().partition("\n")
    return title, rest.strip()


def report(directory):
    found = json.loads((directory / "machine.json").read_text())
    out = ["<!doctype html>", '<html lang="en"><meta charset="utf-8">',
           f"<title>Experiments {html.escape(directory.name)}</title><style>{STYLE}</style>",
           f"<h1>Experiments, {html.escape(directory.name)}</h1>",
           f"<pre>{html.escape(json.dumps(found, indent=2))}</pre>",
           "<p>Points are medians of the rounds, bars reach from the least to the greatest. Dashed: "
           "the value of the paper's text, or the bound that it gives.</p>"]
    for name, entry in claims.papers()["experiments"].items():
        rows = claims.table(directory, name)
        if not rows:
            continue
        title, rest = about(name)
        out += [f"<h2>{html.escape(name)}: {html.escape(title)}</h2>",
                f"<pre>{html.escape(rest)}</pre>", chart(rows, entry["plot"]),
                verdicts(name, rows),
                f"<p>Again: <code>experiments/run {html.escape(name)}</code></p>",
                f"<details><summary>values</summary>{spread(rows, entry['plot'])}</details>"]
    return "\n".join([*out, "</html>"]) + "\n"
