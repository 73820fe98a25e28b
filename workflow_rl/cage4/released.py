"""The teams that the package brings, as policy files."""

from pathlib import Path

RELEASED = {
    name: Path(__file__).parent / "agent" / "released" / f"{name}.npz"
    for name in ("champion", "watchful")
}
"""By the team's name."""
