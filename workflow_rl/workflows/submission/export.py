"""Fill a folder to submit. Its agent takes an order."""

from pathlib import Path

from workflow_rl.cage2.scoring.submission import export
from workflow_rl.environments.challenge import Exported
from workflow_rl.environments.environment import Environment

ACTING = ("order", "rules", "cage2_rules")
_ACTOR = Path(__file__).parent / "files" / "actor.py"


def write_submission(exported: Exported, environment: Environment, folder: Path) -> None:
    """Fill the folder. Raises ConfigError for an agent that does not fit."""
    more = [f"workflow_rl.workflows.{module}" for module in ACTING]
    export.write_submission(exported, environment, folder, more, _ACTOR)
