"""What the simulators of CAGE Challenge 4 have in common.

CybORG's 4.0 code at commit `checkout.COMMIT` is the reference. Every simulator repeats its draws:
the same seed gives the same episode, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.checks import checked_least, checked_whole
from workflow_rl.cage4.scenario.scenario4 import AGENTS, MESSAGE_BITS, N_ACTIONS

SIMULATORS = ("compiled", "cyborg")
PUBLISHED = "published"
"""CybORG without the speed-ups of `cyborg`, which only comparisons of simulators play."""


class StepResult(NamedTuple):
    """What a step gives.

    observations: five int64 vectors, `[92]` for agents 0 to 3 and `[210]` for agent 4, which belong
        to the caller. The last 32 entries of each are the messages of the other four agents, in
        their order.
    reward: the team's reward, the sum of the two parts below. All agents get this reward.
    machine_reward: the part of `BlueRewardMachine`, zero or less.
    action_cost: the part of the actions that were handed in, -1 for each Restore, also while the
        agent is busy.
    done: whether the episode is over, which is true from step max_steps - 1 on. The end is a
        truncation.
    """

    observations: tuple[NDArray[np.int64], ...]
    reward: int
    machine_reward: int
    action_cost: int
    done: bool


def seed_or_none(seed: Any) -> int | None:
    """Return a whole number from 0 up as an int, or None. Raises ValueError, as those below do."""
    return None if seed is None else checked_least("seed", seed, 0)


def checked_action(name: str, agent: int, action: Any) -> int:
    """Return an action of agent number `agent` as an int."""
    index = checked_whole(name, action)
    if not 0 <= index < N_ACTIONS[agent]:
        raise ValueError(f"{name}={index}: choose 0 to {N_ACTIONS[agent] - 1}")
    return index


def checked_actions(actions: Sequence[Any]) -> list[int]:
    """Return the five actions as ints."""
    if len(actions) != len(AGENTS):
        raise ValueError(f"actions: {len(AGENTS)} are needed, not {len(actions)}")
    return [checked_action(f"actions[{i}]", i, action) for i, action in enumerate(actions)]


def checked_bits(name: str, bits: Any) -> NDArray[np.bool_]:
    """Return zeros and ones of any type as booleans, a copy in C order."""
    array = np.asarray(bits)
    if array.dtype != np.bool_:
        wrong = array[(array != 0) & (array != 1)]
        if wrong.size:
            raise ValueError(f"{name}: zeros and ones are needed, not {wrong[0]}")
    return np.array(array, np.bool_, order="C")


def checked_messages(messages: Any) -> NDArray[np.bool_]:
    """Return what the five agents send, `[5, 8]`. None is silence."""
    shape = len(AGENTS), MESSAGE_BITS
    if messages is None:
        return np.zeros(shape, np.bool_)
    if np.shape(messages) != shape:
        raise ValueError(f"messages: an array of {shape} is needed, not of {np.shape(messages)}")
    return checked_bits("messages", messages)


class Simulator(Protocol):
    """One simulated network that plays episodes.

    It is made with `red_agent`, one of RED_AGENTS, and `max_steps`, the length of its episodes in
    steps; see `simulators.make_simulator`. A step after max_steps raises SimulationError.
    """

    red_agent: str
    max_steps: int

    def start_stream(self, seed: int) -> None:
        """Seed the generator, and draw one scenario that is not played.

        This is what constructing CybORG with a seed does. Each `reset()` then begins the next
        episode of this stream, as the official evaluation plays them.
        """

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        """Begin an episode and return its five observations, as in StepResult.

        seed: seeds the generator anew, from 0 up, so that the seed alone decides the episode. None
            goes on with the present stream; before the first one, with an unforeseeable one.
        """

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        """Play one step.

        actions: five indices, each below the agent's N_ACTIONS. A busy agent's action is not
            played, but costs. A masked action is a Sleep.
        messages: `[5, 8]`, zeros and ones or booleans: what each agent sends to the other four,
            which read it in this step's observations. None sends zeros.
        """

    @property
    def masks(self) -> tuple[NDArray[np.bool_], ...]:
        """Five masks, `[82]` or `[242]`: the actions on hosts that exist in this episode.

        They are constant during an episode, and are not to be written to.
        """

    @property
    def phase(self) -> int:
        """Phase of the last step, 0, 1 or 2."""

    @property
    def busy_steps(self) -> NDArray[np.int64]:
        """`[5]`: the coming steps in which each agent's action is still in progress.

        An agent takes an action exactly if this is 0.
        """

    def raw_observations(self) -> tuple[dict[str, Any], ...]:
        """Return the five dictionaries of the last step, or of the reset, with plain values.

        They are what CybORG's wrapper hands to `observation_change(agent, observation)`, as
        `agent.raw_record.plain_observation` writes it: str, int, float, bool, list and
        dict. They belong to the caller. A call builds them. CybORG's simulators also read those of
        each reset, which name the hosts; a step that nobody asks about costs nothing.

        - `success`: "TRUE" or "FALSE" of the action that took effect in this step, "UNKNOWN" for
          Sleep and after a reset, "IN_PROGRESS" for a busy agent.
        - `action`: the action that took effect, in the words of `scenario4.BlueAction`. A busy
          agent has none, nor has a reset.
        - `message`: four lists of eight bool, of the other agents in their order. A reset has none.
        - a host's name, for hosts of which there is something to tell: `Files` that Analyse found;
          `Processes`, which are Monitor's events and the decoy that was deployed; the addresses
          that occur in the events as `Interface`; `System info`. After a reset all hosts of the
          agent's zones are there, routers too, with addresses, sessions, users and system.
        """

    def raw_arrays(self) -> NDArray[Any]:
        """Return what `raw_observations` tells of hosts, as `raw_record.RAW` `[1]`.

        The array belongs to the caller. Raises SimulationError or ValueError if a host shows more
        shells or sources than a record has room for.
        """

    def true_state(self) -> list[Any]:
        """Return the state as lists of str, int, float, bool, None; see `cyborg.true_state`.

        Two simulators agree if these are equal, the order of all containers included.
        """

    def generator_state(self) -> tuple[int, int, int, int]:
        """Return NumPy's PCG64: state // 2**64, state % 2**64, has_uint32 and uinteger.

        uinteger is the buffered half word, which NumPy keeps after its use.
        """


class RedSideSimulator(Simulator, Protocol):
    """A simulator made with `red_agent=FROM_OUTSIDE`."""

    def choose(self, choices: Sequence[int], sessions: Sequence[int]) -> None:
        """Set what the six red agents do in the coming steps: see `RedSimulator.choose`."""

    def red_row(self) -> NDArray[np.uint8]:
        """Return what the red agents see after the last step or the reset, and which choices they
        know to be possible: a row of `red_api.red_layout`."""

    def red_sessions(self) -> list[list[int]]:
        """Return for each red agent the ids of sessions that it learned of, in that order."""
