"""What the simulators of CAGE Challenge 4 have in common.

CybORG 4.0 at commit `checkout.COMMIT` is the reference. Every simulator repeats CybORG's draws: a
seed gives the same episode, bit for bit.
"""

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
        owns the vectors. The last 32 entries of a vector are the other four agents' messages, by
        the agents' numbers.
    reward: the team's reward, the sum of the two parts below. All agents get this reward.
    machine_reward: the part that CybORG's `BlueRewardMachine` computes, zero or less.
    action_cost: the part that actions cost: -1 for each Restore that an agent hands in, even if the
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
        """Seed the generator, and draw one network that is not played.

        CybORG's constructor also does this with its seed. Each `reset()` then begins the next
        episode of this stream, as in the official evaluation.
        """

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        """Begin an episode and return its five observations: see StepResult.

        seed: 0 or more, which seeds the generator, so that only the seed decides the episode. None
            continues the present stream. If there is no stream yet, None begins a random stream.
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

        CybORG's wrapper passes these dictionaries to `observation_change(agent, observation)`. Here
        the values are plain: see `agent.raw_record.plain_observation`. The caller owns the
        dictionaries. This call builds them, so a step without the call needs no time for them.

        - `success`: "TRUE" or "FALSE" if an action took effect in this step, "UNKNOWN" for Sleep
          and after a reset, "IN_PROGRESS" for a busy agent.
        - `action`: the action that took effect, in the words of `scenario4.BlueAction`. The key is
          missing if the agent is busy, and after a reset.
        - `message`: four lists of eight bool, one list from each other agent, by number. After a
          reset, the key is missing.
        - a host's name, if the step showed anything of the host. `Files` has the files that Analyse
          found. `Processes` has Monitor's events, and the decoy that was deployed. `Interface` has
          the addresses of the events. After a reset, every host and router of the agent's zones is
          a key, with addresses, sessions, users and `System info`.
        """

    def raw_arrays(self) -> NDArray[Any]:
        """Return what `raw_observations` shows of hosts, as `raw_record.RAW` `[1]`.

        The caller owns the array. Raises SimulationError or ValueError if a host shows more shells
        or sources than a record can hold.
        """

    def true_state(self) -> list[Any]:
        """Return the state as lists of str, int, float, bool, None; see `cyborg.true_state`.

        Two simulators agree if their lists are equal, including the order of all entries.
        """

    def generator_state(self) -> tuple[int, int, int, int]:
        """Return NumPy's PCG64: state // 2**64, state % 2**64, has_uint32 and uinteger.

        uinteger is the buffered half word. NumPy keeps this value after its use.
        """


class RedSideSimulator(Simulator, Protocol):
    """A simulator made with `red_agent=FROM_OUTSIDE`."""

    def choose(self, choices: Sequence[int], sessions: Sequence[int]) -> None:
        """Set what the six red agents do in the next steps: see `RedSimulator.choose`."""

    def red_row(self) -> NDArray[np.uint8]:
        """Return a row of `red_api.red_layout`: what the red agents see after the last step or the
        reset, and the agents' masks."""

    def red_sessions(self) -> list[list[int]]:
        """Return the session ids that each red agent learned, in the order in which the agent
        learned the ids."""
