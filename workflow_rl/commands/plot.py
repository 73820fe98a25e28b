"""The command `plot`: learning curves or timelines as a picture."""

from pathlib import Path

import click

from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import NOT_NEGATIVE, PATH, OutputFile
from workflow_rl.output_files import require_writable
from workflow_rl.reporting.learning_curve import save_png
from workflow_rl.reporting.timeline import read_trace, timeline_figure


@click.command(cls=ClearCommand)
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option("--timeline", is_flag=True, help="RUNS are traces: the files of --trace.")
@click.option("--from", "start", type=NOT_NEGATIVE, metavar="S",
              help="Where the timelines begin, in seconds.")  # fmt: skip
@click.option("--to", "end", type=NOT_NEGATIVE, metavar="S", help="Where they end.")
@click.option("--label", "labels", multiple=True, metavar="TEXT",
              help="What the legend calls a line, once for each line, in the order of RUNS.  "
                   "[default: the folder's name]")  # fmt: skip
@click.option("--output", type=OutputFile(".png", ".pdf", ".svg"), metavar="FILE",
              help="PNG, PDF or SVG.  [default: learning_curve.png in the run folder, or beside "
                   "the first of several, in a population's folder policies.png; duel.png in a "
                   "duel's folder; "
                   "timeline.png beside the first trace]")  # fmt: skip
def plot(
    runs: tuple[Path, ...],
    timeline: bool,
    start: float | None,
    end: float | None,
    labels: tuple[str, ...],
    output: Path | None,
) -> None:
    """Draw the learning curves of one or more RUNS, the folders of training runs.

    The picture shows returns against episodes, env steps and wall time. Runs that differ in their
    seed alone are one line, their mean, with its 95% confidence interval. On CAGE-2 the picture
    also shows the returns of scripted agents and of the best known agent, and a line for each red
    agent of a run against several. For a population it also shows the settings and who took over
    from whom.

    With --timeline, the picture shows what every worker and the learner did, a bar for each, with
    the traces below one another. Without --from and --to, each trace shows as much time as two
    updates of the slowest trace take, and beside that a hundredth of that time, enlarged.

    \b
    Examples:
      plot runs/first runs/second --label PPO --label ours --output both.png
      plot --timeline sync.json async.json --output timeline.png
    """
    if timeline and labels:
        raise click.UsageError("--label does not go with --timeline")
    if not timeline and (start, end) != (None, None):
        raise click.UsageError("--from and --to go with --timeline")
    if start is not None and end is not None and not start < end:
        raise click.BadParameter(f"{end:g} is not after --from {start:g}", param_hint="--to")
    if output is None and timeline:
        output = runs[0].parent / "timeline.png"
    elif output is None:
        from workflow_rl.runs.folder import population_of
        from workflow_rl.studies.policies_figure import picture_in

        # A population's own picture stays as it is.
        name = "learning_curve.png" if population_of(runs[0]) is None else "policies.png"
        output = picture_in(runs[0]) if len(runs) == 1 else runs[0].parent / name
    if timeline:
        figure = timeline_figure([read_trace(path) for path in runs], start, end)
    else:
        from workflow_rl.api import learning_curves  # It brings torch.

        figure = learning_curves(*runs, labels=labels)
    require_writable(output, "--output")
    save_png(figure, output)
    click.echo(f"{'timeline' if timeline else 'learning curves'}: {output}")
