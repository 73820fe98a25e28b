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
"""The name of CybORG without the speed-ups of `cyborg`. Only comparisons of simulators use it."""


class StepResult(NamedTuple):
    """What a step gives.

    observations: five int64 vectors, `[92]` for agents 0 to 3 and `[210]` for agent 4. The caller
        owns them. The last 32 entries of a vector are the messages of the other four agents, by
        number.
    reward: the team's reward, the sum of the two parts below. All agents get this reward.
    machine_reward: the part that CybORG's `BlueRewardMachine` computes, zero or less.
    action_cost: the part of the actions that were handed in: -1 for each Restore, even if the
        agent is busy.
    done: whether the episode is over. It is true from step max_steps - 1 on. The end is a
        truncation.
    """

    observations: tuple[NDArray[np.int64], ...]
    reward: int
    machine_reward: int
    action_cost: int
    done: bool


def seed_or_none(seed: Any) -> int | None:
    """Return a whole number from 0 up as an int, or None. Raises ValueError."""
    return None if seed is None else checked_least("seed", seed, 0)


def checked_action(name: str, agent: int, action: Any) -> int:
    """Return an action of agent number `agent` as an int. Raises ValueError."""
    index = checked_whole(name, action)
    if not 0 <= index < N_ACTIONS[agent]:
        raise ValueError(f"{name}={index}: choose 0 to {N_ACTIONS[agent] - 1}")
    return index


def checked_actions(actions: Sequence[Any]) -> list[int]:
    """Return the five actions as ints. Raises ValueError."""
    if len(actions) != len(AGENTS):
        raise ValueError(f"actions: {len(AGENTS)} are needed, not {len(actions)}")
    return [checked_action(f"actions[{i}]", i, action) for i, action in enumerate(actions)]


def checked_bits(name: str, bits: Any) -> NDArray[np.bool_]:
    """Return zeros and ones of any type as booleans, a copy in C order. Raises ValueError."""
    array = np.asarray(bits)
    if array.dtype != np.bool_:
        wrong = array[(array != 0) & (array != 1)]
        if wrong.size:
            raise ValueError(f"{name}: zeros and ones are needed, not {wrong[0]}")
    return np.array(array, np.bool_, order="C")


def checked_messages(messages: Any) -> NDArray[np.bool_]:
    """Return what the five agents send, `[5, 8]`; all zeros for None. Raises ValueError."""
    shape = len(AGENTS), MESSAGE_BITS
    if messages is None:
        return np.zeros(shape, np.bool_)
    if np.shape(messages) != shape:
        raise ValueError(f"messages: an array of {shape} is needed, not of {np.shape(messages)}")
    return checked_bits("messages", messages)


class Simulator(Protocol):
    """One simulated network that plays episodes. See `simulators.make_simulator`.

    red_agent: one of RED_CLASSES.
    max_steps: the length of an episode. A step after max_steps raises SimulationError.
    """

    red_agent: str
    max_steps: int

    def start_stream(self, seed: int) -> None:
        """Seed the generator, and draw one scenario that is not played.

        CybORG's constructor does the same with its seed. Each `reset()` then begins the next
        episode of this stream, as in the official evaluation.
        """

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        """Begin an episode and return its five observations, as in StepResult.

        seed: 0 or more. It seeds the generator anew, so that it alone decides the episode. None
            continues the present stream. If no stream has begun, None begins one at random.
        """

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        """Play one step.

        actions: five indices, each below the agent's N_ACTIONS. A busy agent's action is not
            played, but its cost counts. An action that the mask forbids becomes a Sleep.
        messages: `[5, 8]`, zeros and ones or booleans. Each agent sends its row to the other four,
            who read it in this step's observations. None sends zeros.
        """

    @property
    def masks(self) -> tuple[NDArray[np.bool_], ...]:
        """Five masks, `[82]` or `[242]`. An action on a host is possible if the host exists.

        The masks are constant during an episode. The caller must not write to them.
        """

    @property
    def phase(self) -> int:
        """Phase of the last step, 0, 1 or 2."""

    @property
    def busy_steps(self) -> NDArray[np.int64]:
        """`[5]`: for how many more steps each agent is busy. At 0, the agent takes an action."""

    @property
    def costs(self) -> NDArray[np.float64]:
        """The `costs.EVALUATED` of the last step, zeros after a reset; `[0]` without measures.

        The next call overwrites the array, which the caller must not write to.
        """

    def raw_observations(self) -> tuple[dict[str, Any], ...]:
        """Return the five agents' dictionaries of the last step, or of the reset.

        CybORG's wrapper hands these to `observation_change(agent, observation)`. Here their values
        are plain, as `agent.raw_record.plain_observation` makes them. The caller owns them. They
        are built by this call, so a step without a call costs nothing. CybORG's simulators also
        read the dictionaries of each reset, which name the hosts.

        - `success`: "TRUE" or "FALSE" if an action took effect in this step, "UNKNOWN" for Sleep
          and after a reset, "IN_PROGRESS" for a busy agent.
        - `action`: the action that took effect, in the words of `scenario4.BlueAction`. A busy
          agent has no such key. After a reset, no agent has it.
        - `message`: four lists of eight bool, one of each other agent, by number. After a reset,
          the key is missing.
        - a host's name, if there is something to tell of the host. `Files` are those that Analyse
          found. `Processes` are Monitor's events, and the decoy that was deployed. `Interface` has
          the addresses of the events. After a reset, every host and router of the agent's zones is
          a key, with addresses, sessions, users and `System info`.
        """

    def raw_arrays(self) -> NDArray[Any]:
        """Return what `raw_observations` tells of hosts, as `raw_record.RAW` `[1]`.

        The caller owns the array. Raises SimulationError or ValueError if a host shows more shells
        or sources than a record has room for.
        """

    def true_state(self) -> list[Any]:
        """Return the state as lists of str, int, float, bool, None; see `cyborg.true_state`.

        Two simulators agree if their lists are equal, including the order of all entries.
        """

    def generator_state(self) -> tuple[int, int, int, int]:
        """Return NumPy's PCG64: state // 2**64, state % 2**64, has_uint32 and uinteger.

        uinteger is the buffered half word. NumPy keeps its value after the word is used.
        """


class RedSideSimulator(Simulator, Protocol):
    """A simulator made with `red_agent=FROM_OUTSIDE`."""

    def choose(self, choices: Sequence[int], sessions: Sequence[int]) -> None:
        """Set what the six red agents do in the coming steps: see `RedSimulator.choose`."""

    def red_row(self) -> NDArray[np.uint8]:
        """Return a row of `red_api.red_layout`: what the red agents see after the last step or the
        reset, and which choices they know to be possible."""

    def red_sessions(self) -> list[list[int]]:
        """Return the ids of the sessions that each red agent learned of, in the order in which it
        learned of them."""
