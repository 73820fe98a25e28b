"""The interface and the constants of all simulators of CAGE Challenge 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIMULATORS = ("compiled", "cyborg")
PUBLISHED = "published"
"""The simulator "cyborg" without its speed-ups. Only comparisons of simulators use it."""
OWN_RED = "own"
"""The name that a simulator gives to a red agent whose actions come from outside."""
SEED_LIMIT = 2**63
"""The seeds of the compiled simulator are smaller than this."""
MAX_STEPS = 1_000_000
"""The largest number of steps of an episode, and the largest number of envs."""

Facts: TypeAlias = "tuple[int, int, int, int, NDArray[np.bool_]]"
"""What happened in a step: Blue's success, Red's action, Red's target, Red's success, and the mask
`[13]` of the suspicious hosts, on which monitoring noticed a process. Successes are indices into
`SUCCESSES`. Red's action is an index into `RED_ACTIONS`, and Red's target into `RED_TARGETS`. -1
means none. A named tuple would take a tenth of a step's time, so this is a plain tuple."""


class Simulator(Protocol):
    """One simulated network. A copy or a pickle plays on exactly as the original would.

    An observation is an array of 52 zeros and ones (any integer dtype), which the next call may
    overwrite. No call changes the caller's `random` state."""

    def reset(self, seed: int, red_agent: str) -> NDArray[Any]: ...

    def step(self, action: int) -> tuple[NDArray[Any], float]: ...

    @property
    def facts(self) -> Facts:
        """Facts about the last step."""

    @property
    def held(self) -> tuple[int, int]:
        """Two masks of hosts: where Red has a session, and where Red is root or SYSTEM. Red's
        foothold, the session of the start, does not count."""

    @property
    def texts(self) -> tuple[str, str]:
        """Blue's last action and Red's last action, as CybORG prints them."""

    def save(self) -> Any:
        """Return a snapshot of everything on which the next steps depend."""

    def load(self, snapshot: Any) -> None:
        """Go on from a snapshot."""
