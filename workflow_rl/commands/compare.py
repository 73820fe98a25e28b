"""The command `compare`: the scores of several agents together, and against a baseline."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import PATH, SEED, OutputFile
from workflow_rl.environments.source import guests
from workflow_rl.output_files import NOT_OURS, require_writable, write_text
from workflow_rl.terminal import printable

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "_%&#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$"}
)

if TYPE_CHECKING:
    from workflow_rl.evaluation.compare import Compared, Returns
    from workflow_rl.evaluation.measures import Readings


@click.command(cls=ClearCommand)
@click.argument("agents", nargs=-1, required=True, type=PATH)
@click.option(
    "--baseline",
    multiple=True,
    type=PATH,
    metavar="RUN",
    help="The agent to compare with. Several are taken together: repeat the option.",
)
@click.option(
    "--output",
    type=OutputFile(".csv", ".json", ".tex"),
    metavar="FILE",
    help="The tables as CSV, JSON or LaTeX.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, metavar="N",
              help="Of the bootstrap.")  # fmt: skip
def compare(
    agents: tuple[Path, ...], baseline: tuple[Path, ...], output: Path | None, seed: int
) -> None:
    """Show what several AGENTS score together, such as runs that differ in their seed alone.

    An agent is a run's folder that evaluate has scored, or a file that evaluate --json wrote. Give
    evaluate the same --episodes and --seed for all of them. The folder of several policies stands
    for all of them.

    The mean has the interval of Student's distribution over agents and episodes. IQM is the mean of
    the agents' scores without the lowest and the highest quarter, with the interval of the
    stratified bootstrap. Beside a baseline, the difference of the means is over the same episodes,
    and P(better) is the probability that one of the agents has a higher score than one of the
    baseline. Measures follow that evaluate has of the episodes of all these agents. All intervals
    are 95% intervals. If the interval of the difference is without 0, a paired test at 5% finds a
    difference.

    \b
    Examples:
      compare runs/new-0 runs/new-1 runs/new-2 --output table.tex
      compare runs/new-* --baseline runs/old-0 --baseline runs/old-1
    """
    from workflow_rl.evaluation.compare import compare_agents, compare_measures, comparison_table
    from workflow_rl.runs.folder import runs_in

    if output is not None:
        require_writable(output, "--output")
    agents, baseline = tuple(runs_in(*agents)), tuple(runs_in(*baseline))
    _require_apart(agents, baseline)
    played: dict[str, Path] = {}
    given: dict[str, Path] = {}
    of_agents = [_scores(path, "AGENTS", played, given) for path in agents]
    _hint_at_unlike(agents)
    of_baseline = [_scores(path, "--baseline", played, given) for path in baseline]
    scores = [returns for returns, _ in of_agents]
    bases = [returns for returns, _ in of_baseline]
    if len(played) > 1:
        told = ", ".join(f"{path} with {how:.200}" for how, path in played.items())
        raise click.UsageError(f"the episodes are not the same: evaluate scored {told}")
    try:
        rows = compare_agents(scores, bases, seed)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(comparison_table(rows))
    measured = [readings for _, readings in of_agents]
    measured_bases = [readings for _, readings in of_baseline]
    if measures := compare_measures(measured, measured_bases):
        click.echo(comparison_table(measures, "measure"))
    told = f" The baseline has {len(bases)}." if bases else ""
    n_episodes = sum(map(len, scores[0].values()))
    click.echo(f"Agents: {len(scores)}, with {n_episodes} episodes each.{told}")
    if output is not None:
        write_text(output, _text(rows, measures, output.suffix.lower()))
        click.echo(f"table: {output}")


def _require_apart(agents: Sequence[Path], baseline: Sequence[Path]) -> None:
    """Raise click.UsageError if a pattern of the shell made agents of a baseline's policies."""
    from workflow_rl.runs.folder import population_of

    of_baseline = {population_of(path) for path in baseline} - {None}
    for path in agents:
        if population_of(path) in of_baseline:
            raise click.UsageError(
                f"{path} and a baseline are policies of one run: --baseline {path.parent} takes "
                "all of its policies together"
            )


def _hint_at_unlike(agents: Sequence[Path]) -> None:
    """Print a hint if agents differ in more than their seed, such as by a pattern of the shell."""
    from workflow_rl.runs.folder import read_config
    from workflow_rl.runs.return_curves import groups_of

    runs = [path for path in agents if (path / "config.json").exists()]
    groups = groups_of([path.name for path in runs], [read_config(run).flat() for run in runs])
    if len(groups) > 1:
        click.echo(
            f"Hint: AGENTS differ in more than their seed ({', '.join(groups)}), and all of them "
            "count as one method. --baseline takes one RUN each time: of a pattern such as "
            "runs/old-*, the shell gives the others to AGENTS.",
            err=True,
        )


def _scores(
    path: Path, named: str, played: dict[str, Path], given: dict[str, Path]
) -> tuple[Returns, Mapping[str, Readings]]:
    """Return an agent's returns by task, and the readings of its measures. Add the options of its
    episodes to `played`, and the agent to `given`. Raises click.UsageError for a repeated agent."""
    from workflow_rl.evaluation import evaluate
    from workflow_rl.evaluation.measures import readings_in

    file = path / "evaluation.json" if path.is_dir() else path
    scorings = [scoring for guest in guests.values() if (scoring := guest.scoring()) is not None]
    try:
        content = evaluate.read_scores(file)
        how = f"--seed {int(content['seed'])}"
        how += "".join(
            f", {n}={value!r}" for n, value in sorted(content.get("env_args", {}).items())
        )
    except NOT_OURS:
        content = {}
    for scoring in (*scorings, evaluate.ReturnScoring()) if content else ():
        try:
            returns, short = scoring.returns(content), evaluate.shortfall_in(content)
            measured = readings_in(content)
        except NOT_OURS:
            continue
        if returns and all(returns.values()):
            _require_same_agent(path, content, named)
            played.setdefault(how, path)
            agent = content.get(evaluate.AGENT_DIGEST) or file.resolve()
            if (first := given.setdefault(f"{agent} {content.get('actions')}", path)) is not path:
                raise click.UsageError(f"{first} and {path} are one agent: give it once")
            if short is not None:
                click.echo(f"Hint: {path}: {short}", err=True)
            return returns, measured
    advice = f"run `evaluate {path}` first"
    if not path.is_dir():
        advice = f"run `evaluate {path} --json scores.json`, and give scores.json in its place"
    raise click.BadParameter(f"{path} has no scores of evaluate: {advice}", param_hint=named)


def _require_same_agent(path: Path, scores: Mapping[str, Any], named: str) -> None:
    """Raise click.BadParameter if the scores in a run's folder are not of the agent there now."""
    from workflow_rl.evaluation.evaluate import are_of

    files = (path / "best.safetensors", path / "checkpoint.safetensors")
    agent = next((file for file in files if file.exists()), None)
    if agent is not None and not are_of(scores, agent):
        raise click.BadParameter(
            f"the scores in {path} are not of {agent}: run `evaluate {path}` again",
            param_hint=named,
        )


def _text(rows: Sequence[Compared], measures: Sequence[Compared], ending: str) -> str:
    from workflow_rl.evaluation.compare import comparison_table, plain_rows

    if ending == ".tex":
        of_measures = _latex(comparison_table(measures, "measure")) if measures else ""
        return _latex(comparison_table(rows)) + of_measures
    values = [*plain_rows(rows), *plain_rows(measures, "measure")]
    if ending == ".json":
        return json.dumps(values, indent=2) + "\n"
    table = io.StringIO()
    names = dict.fromkeys(name for row in values for name in row)
    writer = csv.DictWriter(table, list(names), lineterminator="\n")
    writer.writeheader()
    for row in values:
        name, text = next(iter(row.items()))
        # A spreadsheet would calculate a stranger's text that begins like a formula.
        writer.writerow({**row, name: f"'{text}" if text.startswith(tuple("=+-@")) else text})
    return table.getvalue()


def _latex(table: Any) -> str:
    table.custom_format = lambda _, cell: printable(cell).translate(_LATEX)
    return str(table.get_latex_string()).lstrip("\r\n").replace("\r\n", "\n") + "\n"
