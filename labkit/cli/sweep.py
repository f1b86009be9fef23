"""`labkit sweep SCENARIO --vary NAME=VALUES`: run a scenario with every combination of values, on all cores.

The results go into a file of JSON lines as they come: the first says what is swept (schema "labkit.sweep/1"), each
further one is a run with `run` (its number), `vary`, `seed` and `metrics`. Where the sweep was interrupted, the same
command goes on; when all runs are there, the lines stand in the order of the grid and the file is the same bytes
whoever made the runs.

The first Ctrl-C lets the runs that are under way end, and keeps them; a second one ends everything at once.

Exit status: 0 when all runs were made, 2 when that cannot be, 130 on Ctrl-C.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from labkit.scenario import Cell, SweepTable

__all__ = ["HELP", "add_arguments", "run"]

HELP = "run a scenario with every combination of some values, on all cores, and print a table"

SHOWN = ("goodput_per_s", "attempts", "rejected", "opens", "recovery_s")
"""The metrics of the table when none is named."""

LONGEST = 200  # lines of a table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    from labkit.cli.run import SET_HELP

    parser.add_argument(
        "scenario", metavar="SCENARIO", help="a YAML file, a NAME of `labkit scenarios`, or NAME:VARIANT"
    )
    parser.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar="PATH=VALUES",
        help="what varies and over what: 1..10, 0.5..2.5:0.5, or values with commas between; give it once for each",
    )
    parser.add_argument(
        "--seeds", default="1", metavar="N", help="run each combination from so many seeds, or from 5..10, or from 3,7"
    )
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help=SET_HELP)
    parser.add_argument("--jobs", type=int, metavar="N", help="processes; as many as there are cores when left out")
    parser.add_argument("--out", metavar="FILE", help="the results; NAME-DIGEST.jsonl in this folder when left out")
    parser.add_argument(
        "--metric", action="append", metavar="NAME", help="show this metric; give it once for each, or with commas"
    )
    parser.add_argument("--plot", metavar="OUT", help="draw the first metric into a .png, .svg or .pdf")
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="let the workers of this Dask cluster make the runs (tcp://127.0.0.1:8786)"
    )
    parser.epilog = (
        "Exit status: 0 all runs were made, 2 that cannot be, 130 Ctrl-C; the same command then goes on where it was."
    )


def run(args: argparse.Namespace) -> int:
    """Sweep; see `labkit sweep --help`.

    Raises:
        LabkitError: the sweep cannot be made, or its file cannot be written; the sentence says what is kept.
    """
    from labkit.cli.files import check_picture, check_results
    from labkit.cli.interrupts import heeding
    from labkit.cli.progress import Progress
    from labkit.cli.run import settings
    from labkit.cli.text import complain, put
    from labkit.errors import ConfigError, LabkitError
    from labkit.scenario import load_scenario, sweep
    from labkit.scenario.sweeps.grid import parse_seeds, parse_vary
    from labkit.scenario.sweeps.sweep import check_metrics, metrics_of, name_of_file

    if args.plot is not None:
        check_picture(args.plot, ".pdf")
    vary = parse_vary(args.vary)
    if args.plot is not None and len(vary) > 2:
        raise ConfigError(f"--plot draws one varied value or two, and {len(vary)} vary; hold some with --set")
    scenario = load_scenario(args.scenario, values=settings(args.set))
    seeds = parse_seeds(args.seeds, scenario.seed)
    metrics = [name for word in args.metric or SHOWN for name in word.split(",")]
    check_metrics(metrics, metrics_of(scenario))
    out = args.out if args.out is not None else name_of_file(scenario, vary, seeds)
    check_results({"--plot": args.plot, "--out": out}, kept=args.scenario)
    begun = _Begun()
    try:
        with (
            Progress(f"sweep {scenario.name}") as progress,
            heeding(lambda: progress.say("stopping after the runs under way; Ctrl-C again stops at once")) as stop,
        ):

            def follow(done: int, of: int) -> None:
                begun.done, begun.of = done, of
                progress(done, of)

            table = sweep(
                scenario, vary, seeds=seeds, jobs=args.jobs, out=out, dask=args.dask, progress=follow, stop=stop
            )
    except KeyboardInterrupt:
        complain(f"interrupted; {begun.said(out)}")
        raise
    except LabkitError as error:
        if not begun.done or begun.done == begun.of:
            raise
        raise type(error)(f"{error}; {begun.said(out)}") from None
    _tell(table, metrics)
    put(f"\nResults: {out}")
    if args.plot is not None:
        _draw(args.plot, table, metrics[0])
        put(f"Picture: {args.plot}")
    return 0


class _Begun:
    """How far it came."""

    done = 0
    of = 0

    def said(self, out: str) -> str:
        """That what is done is not lost, and how to go on."""
        from labkit.config.findings import printable

        if not self.done:
            return "nothing was run yet"
        return f"{self.done:,} of {self.of:,} runs are in {printable(out)}, and the same command goes on from there"


def _tell(table: SweepTable, metrics: Sequence[str]) -> None:
    from labkit.cli.text import number, put
    from labkit.cli.text import table as aligned
    from labkit.scenario.sweeps.grid import shown_value

    many = len(table.seeds)
    each = f"each from {many} seeds: the median, and least to most" if many > 1 else f"seed {table.seeds[0]}"
    put(f"{table.title}\n{len(table.rows):,} runs, {each}\n")
    cells = [table.cells(metric) for metric in metrics]
    heads = [*table.parameters]
    columns = [[shown_value(cell.values[place]) for cell in cells[0]] for place in range(len(heads))]
    spreads = []
    for metric, found in zip(metrics, cells, strict=True):
        heads.append(metric)
        columns.append([number(cell.median) for cell in found])
        spread = [_spread(cell, many) for cell in found]
        if any(spread):
            spreads.append(len(heads))
            heads.append("")
            columns.append(spread)
    rows = list(zip(*columns, strict=True))
    put(aligned(heads, rows[:LONGEST], left=spreads))
    if len(rows) > LONGEST:
        put(f"and {len(rows) - LONGEST:,} more combinations in the results")


def _spread(cell: Cell, seeds: int) -> str:
    """The least and the most, and for how many seeds there is a number."""
    from labkit.cli.text import number

    known = f"({cell.known} of {seeds})" if 0 < cell.known < seeds else ""
    if cell.low == cell.high:
        return known
    return f"{number(cell.low)} to {number(cell.high)} {known}".rstrip()


def _draw(path: str, table: SweepTable, metric: str) -> None:
    from labkit.cli.files import drawing, save_picture, save_sweep_figure

    with drawing():
        if path.lower().endswith(".pdf"):
            save_sweep_figure(table, metric, path)
            return
        from labkit.plots.sweeps.heat_map import heat_map, sweep_line

        title = f"{table.title}: {metric}"
        if len(table.parameters) == 1:
            picture = sweep_line(table.rows, x=table.parameters[0], value=metric, title=title)
        else:
            down, across = table.parameters
            picture = heat_map(table.rows, x=across, y=down, value=metric, title=title)
        save_picture(picture, path)
