"""Draws pictures of the evaluation from results that `sekisho-bench paper` kept.

    draw.py RESULTS PICTURES

Each picture is an SVG in light and one in dark. It measures nothing: what is not in the
results is not drawn, and a picture without any results is left out by name.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, LogLocator

# Figures of the papers, drawn beside ours. JIP 2019, section 2; Peschel 2015; IPSJ 2017,
# table 3.
JIP_START = [(100_000, 42.662 * 1e3)]
JIP_MEMORY = [(100_000, 3_175_912 / 1024)]
PESCHEL_MEMORY = [(1, 3_000), (2, 3_200), (100, 9_600), (1_000, 40_000), (10_000, 370_000)]
IPSJ_FORK = [(2_456, 10.1), (13_408, 28.5), (22_259, 53.7)]

THEMES = {
    "light": {"page": "#ffffff", "ink": "#1f2328", "grid": "#d1d9e0"},
    "dark": {"page": "#0d1117", "ink": "#e6edf3", "grid": "#3d444d"},
}
# Colours that differ in lightness too, and markers: a reader may not tell hues apart.
STYLES = {
    "sekisho": ("#0969da", "#58a6ff", "o"),
    "nginx 1.28": ("#7a9a01", "#a5d65a", "P"),
    "nginx": ("#1a7f37", "#3fb950", "s"),
    "Apache": ("#bc4c00", "#f0883e", "^"),
    "HAProxy": ("#8250df", "#bc8cff", "D"),
    "Caddy": ("#9a6700", "#d29922", "v"),
    "papers": ("#57606a", "#8b949e", "x"),
    "simulated": ("#57606a", "#8b949e", ""),
}


class Results:
    """Rows of a folder of results."""

    def __init__(self, folder):
        self.folder = folder

    def rows(self, part, prefix=""):
        """Yields the rows of a part, by the number of hosts and that of their name."""
        files = (self.folder / part).glob(f"{prefix}*.json")
        files = [file for file in files if file.name != "run.json"]
        yield from sorted((json.loads(file.read_text()) for file in files), key=place)

    def lines(self, part, prefix, figure):
        """Returns for each case its points: hosts, and the median of a figure."""
        lines = {}
        for row in self.rows(part, prefix):
            for case in row["cases"]:
                if (value := median(case, figure)) is not None:
                    lines.setdefault(case["label"], []).append((row["hosts"], value))
        return lines


def place(row):
    return row["hosts"], number(row)


def number(row):
    """Returns the number at the end of a row's name."""
    end = row["id"].rsplit("-", 1)[-1]
    return int(end) if end.isdigit() else 0


def median(case, name):
    found = [figure["median"] for figure in case["figures"] if figure["name"] == name]
    return found[0] if found and case["error"] is None else None


def server_of(label):
    """Returns the server that a case is of: its label begins so."""
    for server in STYLES:
        if label.startswith(server):
            return server
    sys.exit(f"{label!r} begins as no server of STYLES: add it there")


def style(label, theme):
    """Returns colour, marker and dashes of a case: those of its server."""
    server = server_of(label)
    light, dark, marker = STYLES[server]
    dashes = "-" if label == server or label.endswith("(trained)") else "--"
    return {"color": dark if theme == "dark" else light, "marker": marker, "linestyle": dashes}


def styles(labels, theme):
    """Yields the style of each case: those of one server differ by dashes and filled markers."""
    turns = Counter()
    for label in labels:
        look = style(label, theme)
        if look["linestyle"] != "-":
            server = server_of(label)
            look["linestyle"] = ("--", ":", "-.")[turns[server] % 3]
            look["markerfacecolor"] = "none" if turns[server] % 2 else look["color"]
            turns[server] += 1
        yield look


def plain(value, _position=None):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def frame(title, x, y, logarithmic="both"):
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    axes.set_title(title, loc="left", fontsize=12)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if logarithmic in ("x", "both"):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
    if logarithmic in ("y", "both"):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(plain))
    axes.grid(True, which="major", linewidth=0.6)
    return figure, axes


def draw_lines(axes, lines, theme):
    for (label, points), look in zip(lines.items(), styles(lines, theme)):
        axes.plot(*zip(*points), label=label, markersize=5, **look)


def against_hosts(part, prefix, name, title, y, papers):
    """Returns a function that draws a figure against the number of hosts."""

    def draw(results, theme):
        lines = results.lines(part, prefix, name)
        if not lines:
            return None
        figure, axes = frame(title, "hosts", y)
        draw_lines(axes, lines, theme)
        draw_lines(axes, papers, theme)
        low, high = axes.get_ylim()
        if high < 1_000 * low:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.legend(frameon=False, fontsize=8, ncols=2)
        return figure

    return draw


def bars(part, prefix, name, title, y):
    """Returns a function that draws a group of bars for each number of connections."""

    def draw(results, theme):
        rows = list(results.rows(part, prefix))
        labels = list(dict.fromkeys(case["label"] for row in rows for case in row["cases"]))
        if not labels:
            return None
        figure, axes = frame(title, "", y, logarithmic="")
        width = 0.8 / len(labels)
        for turn, label in enumerate(labels):
            values = [value_of(row, label, name) for row in rows]
            places = [place + turn * width for place in range(len(rows))]
            look = style(label, theme)
            hatch = "" if look["linestyle"] == "-" else "//" if turn % 2 else ".."
            drawn = axes.bar(
                places, values, width * 0.9, label=label, color=look["color"],
                edgecolor=THEMES[theme]["page"], hatch=hatch, linewidth=0,
            )
            marks = ["c" if is_of_client(row, label) else "" for row in rows]
            axes.bar_label(drawn, marks, fontsize=7)
        middle = 0.4 - width / 2
        names = [f"{number(row):,} connections" for row in rows]
        axes.set_xticks([place + middle for place in range(len(rows))], names)
        axes.tick_params(axis="x", labelsize=8)
        axes.yaxis.set_major_formatter(FuncFormatter(plain))
        axes.grid(False, axis="x")
        axes.legend(frameon=False, fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1))
        return figure

    return draw


def listed(part, row_name, name, title, x):
    """Returns a function that draws a row's cases below each other, with their names."""

    def draw(results, theme):
        rows = [row for row in results.rows(part) if row["id"] == row_name]
        cases = [
            (case["label"], value)
            for row in rows
            for case in row["cases"]
            if (value := median(case, name)) is not None
        ]
        if not cases:
            return None
        figure, axes = pyplot.subplots(figsize=(8, 0.6 + 0.32 * len(cases)), layout="constrained")
        labels, values = zip(*reversed(cases))
        bars = axes.barh(labels, values, color=[style(label, theme)["color"] for label in labels])
        axes.bar_label(bars, [plain(value) for value in values], padding=3, fontsize=8)
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
        axes.set_xlabel(x)
        axes.tick_params(axis="y", labelsize=8, length=0)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        axes.grid(True, axis="x", linewidth=0.6)
        return figure

    return draw


def is_of_client(row, label):
    """Returns whether the client was the slower one."""
    return any(case["label"] == label and case.get("rates_of_client") for case in row["cases"])


def value_of(row, label, name):
    cases = (case for case in row["cases"] if case["label"] == label)
    values = [value for case in cases if (value := median(case, name)) is not None]
    return values[0] if values else 0


def month(row_name, title):
    """Returns a function that draws the readings of a month, a panel for each kind."""

    def draw(results, theme):
        rows = list(results.rows("month", row_name))
        cases = [case for row in rows for case in row["cases"] if case.get("series")]
        if not cases:
            return None
        panels = [
            ("certificates", "certificates"), ("per_second", "requests per second"),
            ("cpu", "CPU, % of a core"), ("peak_pss_mib", "memory, MiB"),
        ]
        figure, all_axes = pyplot.subplots(2, 2, figsize=(9, 6), layout="constrained", sharex=True)
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
        for axes, (name, y) in zip(all_axes.flat, panels):
            for case in cases:
                points = [(point["day"], point[name]) for point in case["series"]["points"]]
                look = style(case["label"], theme) | {"marker": ""}
                axes.plot(*zip(*points), label=case["label"], linewidth=1.2, **look)
                if case["series"]["ended"] and points:
                    axes.plot(*points[-1], "x", color=look["color"], markersize=9)
            axes.set_title(y, loc="left", fontsize=9)
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(FuncFormatter(plain))
            axes.grid(True, linewidth=0.6)
        for axes in all_axes[1]:
            axes.set_xlabel("day")
        all_axes[0][0].legend(frameon=False, fontsize=8)
        return figure

    return draw


PICTURES = {
    "start-up": against_hosts(
        "preload", "ecdsa-", "start ms", "Start-up, to the first page (P-256)", "ms",
        {"papers: nginx, RSA 4096": JIP_START},
    ),
    "memory": against_hosts(
        "preload", "ecdsa-", "PSS MiB", "Memory after the start (P-256)", "MiB",
        {
            "papers: nginx, RSA 4096 (JIP 2019)": JIP_MEMORY,
            "papers: nginx, RSA 4096 (Peschel 2015)": [(n, kib / 1024) for n, kib in PESCHEL_MEMORY],
        },
    ),
    "throughput": bars(
        "throughput", "tls12-", "per second", "Requests on open connections, TLS 1.2", "per second"
    ),
    "handshakes-held": listed(
        "handshakes", "held-ecdsa-tls13", "server CPU µs",
        "A handshake for each request, certificates held", "server CPU, µs",
    ),
    "handshakes-read": listed(
        "handshakes", "read-ecdsa-tls13", "server CPU µs",
        "A handshake for each request, another of many hosts each time", "server CPU, µs",
    ),
    "fork": against_hosts(
        "fork", "fork-", "p50 µs", "Request to the first byte of a CGI program", "µs",
        {"papers: clone() in Apache": [(n, ms * 1e3) for n, ms in IPSJ_FORK]},
    ),
    "cache": listed(
        "cache", "hits-1000000-zipf-1.0", "% of hits, simulated",
        "Hits of the memory cache, 1,000,000 hosts, Zipf 1.0", "%",
    ),
    "month": month("month-20000", "A month, from 10,000 to 20,000 hosts"),
    "month-million": month("month-1000000", "A month, from 200,000 to 1,000,000 hosts"),
}


def main(folder, into):
    results = Results(Path(folder))
    into = Path(into)
    into.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        for theme, colours in THEMES.items():
            look = {
                "figure.facecolor": colours["page"], "axes.facecolor": colours["page"],
                "savefig.facecolor": colours["page"], "text.color": colours["ink"],
                "axes.labelcolor": colours["ink"], "axes.edgecolor": colours["grid"],
                "xtick.color": colours["ink"], "ytick.color": colours["ink"],
                "grid.color": colours["grid"], "axes.spines.top": False,
                "axes.spines.right": False, "axes.axisbelow": True,
                # Same bytes for the same results.
                "svg.hashsalt": "sekisho",
            }
            with pyplot.rc_context(look):
                figure = draw(results, theme)
                if figure is None:
                    print(f"{name}: left out, there are no results")
                    break
                figure.savefig(into / f"{name}-{theme}.svg", metadata={"Date": None})
                pyplot.close(figure)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
