"""The command `report`: one or more runs on one HTML page."""

import os
from pathlib import Path
from urllib.parse import quote

import click

from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import PATH, SAVED, OutputFile
from workflow_rl.output_files import require_writable, written


@click.command(cls=ClearCommand)
@click.argument("runs", nargs=-1, required=True, type=SAVED)
@click.option("--trace", "trace_paths", type=PATH, multiple=True, metavar="FILE",
              help="What --trace of a trainer wrote, to show what each worker did; may be given "
                   "again.")  # fmt: skip
@click.option("--output", type=OutputFile(".html"), default=Path("report.html"),
              show_default=True, metavar="FILE",
              help="The page to write. The pages that it links to lie beside it, in a folder named "
                   "after it.")  # fmt: skip
def report(runs: tuple[Path, ...], trace_paths: tuple[Path, ...], output: Path) -> None:
    """Write one HTML page about one or more RUNS, the folders of training runs or of duels.

    The page shows curves, scores, settings that differ, how time was spent, and faults. Runs that
    differ in their seed alone become a band. On CAGE-2 the page also shows what the agent does
    against each red agent, and replays of its best, median and worst episodes. Of a duel, the page
    shows the payoff table and who was trained against whom.

    Example: report runs/mixed-0 runs/mixed-1 runs/mixed-2 --output mixed.html
    """
    # Plotly and matplotlib take a while to import: --help should not wait for them.
    from workflow_rl.reporting.pages import uncollected
    from workflow_rl.reporting.timeline import read_trace
    from workflow_rl.studies.study_pages import page_of

    require_writable(output, "--output")
    further = output.with_name(f"{output.stem}_files")
    if further.is_symlink() or (further.exists() and not further.is_dir()):
        raise click.BadParameter(f"{further} is a link, or no folder", param_hint="--output")
    with uncollected():
        page = page_of(runs, [read_trace(path) for path in trace_paths], further)
    click.echo(f"report: {written(output, page)}")
    if f'href="{quote(os.fsencode(further.name))}/' in page:
        click.echo(f"with:   {further}")
