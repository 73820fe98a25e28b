"""The protocol and the constants that the simulators of CAGE Challenge 2 share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIMULATORS = ("compiled", "cyborg")
PUBLISHED = "published"
"""CybORG without the speed-ups of `cyborg`, which only comparisons of simulators play."""
OWN_RED = "own"
"""The name that simulators have for a red agent whose actions come from outside."""
SEED_LIMIT = 2**63
"""The seeds of the compiled simulator are below this."""
MAX_STEPS = 1_000_000
"""The largest number of steps of an episode, and of envs."""

Facts: TypeAlias = "tuple[int, int, int, int, NDArray[np.bool_]]"
"""What happened in a step: Blue's success, Red's action, Red's target, Red's success, and the mask
`[13]` of the hosts on which a process was caught. Successes are indices into `SUCCESSES`. Red's
action is an index into `RED_ACTIONS`, and its target into `RED_TARGETS`. -1 means none. It is a
plain tuple, because making a named tuple takes a tenth of a step."""


class Simulator(Protocol):
    """One simulated network that plays episodes. Copies and pickles go on as the original would.

    An observation is an array of 52 zeros and ones (any integer dtype), which the next call may
    overwrite. No call changes the caller's `random` state.
    """

    def reset(self, seed: int, red_agent: str) -> NDArray[Any]: ...

    def step(self, action: int) -> tuple[NDArray[Any], float]: ...

    @property
    def facts(self) -> Facts:
        """Facts about the last step."""

    @property
    def held(self) -> tuple[int, int]:
        """The masks of the hosts on which Red has a session beyond the given foothold, and of those
        on which such a session is root's or SYSTEM's."""

    @property
    def texts(self) -> tuple[str, str]:
        """Blue's and Red's last action, as CybORG prints them."""

    def save(self) -> Any:
        """Return a snapshot of everything on which the next steps depend."""

    def load(self, snapshot: Any) -> None:
        """Go on from a snapshot."""
