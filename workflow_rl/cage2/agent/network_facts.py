"""What Blue knows of networks: facts about each host, and what Blue's actions can do there.

A fact never names its host, so a policy that observes facts can play any network.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.attack_graph import Reach, attack_graph
from workflow_rl.cage2.b_line_plan import GOAL
from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.scenario.actions import BLUE, DECOYS, EXPLOITS, NEXT_DECOY
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import WORTH_IN_TENTHS

if TYPE_CHECKING:
    from workflow_rl.agents.policies.numpy_policy import NumpyPolicy

Indices = NDArray[np.int64]

WORTHS = tuple(WORTH_IN_TENTHS)
DEPTHS = (1, 2, 3, 4)
"""A host's depth is the number of hosts that Red has to take first. A host has a bit for each of
these depths: whether its depth is this number or larger."""
FACTS = (
    "exists",
    *(f"confidentiality {worth}" for worth in WORTHS),
    "has an OT service",
    *(f"availability {worth}" for worth in WORTHS),
    "runs Windows",
    *(f"exploited by {exploit}" for exploit in EXPLOITS),
    "Red begins there", "in Red's subnet", "behind a closed door", "leads to the goal",
    "can be taken",
    *(f"at least {depth} hosts from Red" for depth in DEPTHS),
)  # fmt: skip
"""The facts about a host, in the order of the bits that a policy sees. Facts never change."""
_ON_HOST = np.array([kind.on_host for kind in BLUE.values()])
_N_MASKS = 1 << tables.N_DECOYS
_BITS = 1 << np.arange(tables.N_DECOYS)


class NetworkFacts:
    """What Blue knows of K scenarios. A scenario may lack some of Blue's kinds of actions.

    are_told: whether the policy observes the facts and masks of its actions, and so plays any
    network. tells_edges: whether a policy's observation ends with `joined`, as in a family of
    scenarios. By default, this is so for several scenarios. See `facts_for`.

    Attributes:
        n_hosts: H, the number of hosts of the largest scenario.
        scenarios: the K scenarios, each with all kinds of actions, for one simulator.
        named, host_names: the names of Blue's A actions and of the hosts in the largest scenario.
        kinds, hosts: `[A]`, the kind and the host of each action.
        is_misinforming: whether Blue does not know the kinds of its decoys.
        decoy_kinds: the kinds of actions that set up decoys.
    """

    def __init__(
        self, scenarios: Sequence[Scenario], are_told: bool = True, tells_edges: bool | None = None
    ) -> None:
        self.are_told = are_told
        self.tells_edges = len(scenarios) > 1 if tells_edges is None else tells_edges
        kinds = max((scenario.kinds_of_action for scenario in scenarios), key=len)
        self.scenarios = tuple(
            scenario if scenario.kinds_of_action == kinds else scenario.let_blue(kinds)
            for scenario in scenarios
        )
        self._kinds_of_scenarios = [scenario.kinds_of_action for scenario in scenarios]
        largest = max(self.scenarios, key=lambda scenario: len(scenario.hosts))
        self.named = largest.action_names
        self.host_names = largest.hosts
        self.n_hosts = len(largest.hosts)
        table = tables_of(largest).of
        self.kinds, self.hosts = table["action_kind"], table["action_host"]
        deceiving = tuple(kind for kind in kinds if BLUE[kind].deceives)
        self.is_misinforming = deceiving != () and DECOYS.keys().isdisjoint(deceiving)
        self.decoy_kinds = deceiving if self.is_misinforming else tuple(DECOYS)

    def __deepcopy__(self, memo: Any) -> NetworkFacts:
        return self  # Facts never change.

    def can_do(self, kind: str) -> NDArray[np.bool_]:
        """Return, for each scenario, whether Blue has actions of this kind, `[K]`. Blue always has
        NEXT_DECOY."""
        if kind == NEXT_DECOY:
            return np.ones(len(self.scenarios), np.bool_)
        return np.array([kind in kinds for kinds in self._kinds_of_scenarios])

    # --- Hosts ------------------------------------------------------------------------------------

    @functools.cached_property
    def facts(self) -> NDArray[np.uint8]:
        """FACTS about each host, `[K, H, len(FACTS)]`."""
        facts = np.zeros((len(self.scenarios), self.n_hosts, len(FACTS)), np.uint8)
        for number, scenario in enumerate(self.scenarios):
            facts[number, : len(scenario.hosts)] = facts_of(scenario, attack_graph(scenario))
        return facts

    @property
    def exists(self) -> NDArray[np.bool_]:
        """Which hosts exist, `[K, H]`."""
        n_hosts = np.array([len(scenario.hosts) for scenario in self.scenarios])
        return np.arange(self.n_hosts) < n_hosts[:, None]

    @functools.cached_property
    def contested(self) -> NDArray[np.bool_]:
        """The hosts that Red can take and Blue can free, `[K, H]`."""
        taken, begins = (FACTS.index(fact) for fact in ("can be taken", "Red begins there"))
        return (self.facts[:, :, taken] > 0) & (self.facts[:, :, begins] == 0)

    @functools.cached_property
    def joined(self) -> NDArray[np.bool_]:
        """For each pair of hosts: whether both share a subnet, and whether the first host leads Red
        to the second host, `[K, 2, H, H]`."""
        joined = np.zeros((len(self.scenarios), 2, self.n_hosts, self.n_hosts), np.bool_)
        for number, scenario in enumerate(self.scenarios):
            size = len(scenario.hosts)
            relations = joined_hosts(scenario)
            joined[number, :, :size, :size] = relations["subnet"], relations["leads to"]
        return joined

    # --- Decoys -----------------------------------------------------------------------------------

    @functools.cached_property
    def fits(self) -> Indices:
        """Masks of the decoys that can be set up on each host, `[K, H]`.

        Blue does not know which kind of decoy Misinform sets up. Then the mask of a host that can
        have n decoys has its n lowest bits set."""
        fits = np.zeros((len(self.scenarios), self.n_hosts), np.int64)
        for number, scenario in enumerate(self.scenarios):
            network = tables_of(scenario)
            if self.is_misinforming:
                ports = tables.DECOY_FREE_PORT[tables.MISINFORM_KINDS]
                is_free = ((network.of["listening_ports"][:, None] >> ports) & 1) == 0
                masks = (1 << is_free.sum(axis=1)) - 1
            else:
                can = [self.can_do(kind)[number] for kind in DECOYS]
                masks = (network.decoy_fits & can) @ _BITS
            fits[number, : len(scenario.hosts)] = masks
        return fits

    @functools.cached_property
    def sets_up(self) -> Indices:
        """For each action, the mask of the decoys that it can set up, `[A]`."""
        if self.is_misinforming:
            return np.where(tables.DECEIVES[self.kinds], _N_MASKS - 1, 0)
        bits = np.zeros(len(BLUE), np.int64)
        bits[tables.FIRST_DECOY : tables.LAST_DECOY + 1] = _BITS
        return bits[self.kinds]

    @functools.cached_property
    def useful_at_first(self) -> NDArray[np.bool_]:
        """Whether each action is Sleep, or is on a host of `contested`, `[K, A]`."""
        on_contested = _ON_HOST[self.kinds] & self.contested[:, self.hosts]
        return (self.kinds == tables.SLEEP) | on_contested


class BlueDecoys:
    """The decoys that Blue has in N envs, which are numbered from 0.

    playing: the scenario of each env, `[N]`. If this is None, all envs play the first scenario.
    masks: the decoys in place on each host, `[N, H]`, see `NetworkFacts.fits`."""

    def __init__(self, facts: NetworkFacts, playing: Indices | None = None) -> None:
        self.facts = facts
        self._playing = playing
        self.masks = np.zeros((0, facts.n_hosts), np.int64)

    def scenarios(self, envs: Sequence[int] | Indices) -> Indices:
        return scenarios_in(self._playing, envs)

    def begin(self, envs: Sequence[int] | Indices) -> None:
        self.masks = with_rows(self.masks, max(envs) + 1)
        self.masks[envs] = 0

    def after(self, envs: Sequence[int] | Indices, actions: Indices) -> None:
        """Update `masks` with the actions [M] that Blue took in M envs."""
        facts = self.facts
        envs = np.asarray(envs)
        hosts = facts.hosts[actions]
        before = self.masks[envs, hosts]
        fits = facts.fits[self.scenarios(envs), hosts] & facts.sets_up[actions]
        can = fits & self._beside(before, with_effect=False)
        set_up = can & -can if facts.is_misinforming else can  # can & -can is the lowest bit.
        self.masks[envs, hosts] = np.where(tables.RESETS[facts.kinds[actions]], 0, before | set_up)

    def useful(self, envs: Sequence[int] | Indices) -> Indices:
        """Return masks of the decoys that would have an effect if Blue set them up, `[M, H]`."""
        beside = self._beside(self.masks[envs], with_effect=True)
        return beside & self.facts.fits[self.scenarios(envs)]

    def _beside(self, masks: Indices, with_effect: bool) -> Indices:
        if self.facts.is_misinforming:
            return ~masks
        return decoys_beside(with_effect)[masks]

    def useful_actions(self, envs: Sequence[int] | Indices) -> NDArray[np.bool_]:
        """Return which actions can be useful in M envs, `[M, A]`.

        These are Sleep, and the actions on hosts that Red can take and Blue can free. A decoy is
        useful if CybORG can set up this decoy beside the decoys in place. Monitor is not useful,
        because CybORG lets Blue monitor at the end of every step."""
        facts = self.facts
        scenarios = self.scenarios(envs)
        possible = facts.fits[scenarios] & self._beside(self.masks[envs], with_effect=False)
        decoys = np.flatnonzero(facts.sets_up)
        useful = facts.useful_at_first[scenarios]
        useful[:, decoys] &= (possible[:, facts.hosts[decoys]] & facts.sets_up[decoys]) != 0
        return useful


def scenarios_in(playing: Indices | None, envs: Sequence[int] | Indices) -> Indices:
    """Return the scenario of each of M envs, `[M]`. playing: see `BlueDecoys`."""
    return np.zeros(len(envs), np.int64) if playing is None else playing[envs]


def with_rows(rows: NDArray[Any], n: int) -> NDArray[Any]:
    """Return the rows, with rows of zeros appended until there are n."""
    n_missing = max(n - len(rows), 0)
    zeros = np.zeros((n_missing, *rows.shape[1:]), rows.dtype)
    return np.concatenate([rows, zeros])


@functools.cache
def decoys_beside(with_effect: bool) -> Indices:
    """Return, for each mask of decoys in place, the decoys that CybORG can set up, `[256]`.

    with_effect: whether to leave out decoys whose port is open already. They have no effect."""
    in_mask = _in_masks()
    opens = tables.DECOY_PORT[: tables.N_DECOYS]
    needs = tables.DECOY_FREE_PORT[: tables.N_DECOYS]
    # By mask and decoy. is_used: the mask's decoys open the port that this decoy needs to be free.
    # is_open: the mask's decoys open the port that this decoy would open.
    is_used = (in_mask[:, :, None] & (opens[:, None] == needs)).any(axis=1)
    is_open = (in_mask[:, :, None] & (opens[:, None] == opens)).any(axis=1)
    possible = ~in_mask & ~is_used
    if with_effect:
        possible &= ~is_open
    masks: Indices = possible @ _BITS
    return masks


@functools.cache
def likeliest_decoys() -> Indices:
    """Return, for each mask of decoys, the decoy that Red prefers to attack, `[256]`, or -1."""
    in_mask = _in_masks()
    preference = tables.PREFERENCE.tolist()
    ranks = [preference.index(port) for port in tables.DECOY_PORT[: tables.N_DECOYS]]
    # The sort is stable, so the first of two decoys on one port has the better rank.
    in_order = np.argsort(ranks, kind="stable")
    first = in_order[in_mask[:, in_order].argmax(axis=1)]
    return np.where(in_mask.any(axis=1), first, -1)


def _in_masks() -> NDArray[np.bool_]:
    """Return, for each mask, whether each decoy is in the mask, `[256, 8]`."""
    in_masks: NDArray[np.bool_] = (np.arange(_N_MASKS)[:, None] & _BITS) != 0
    return in_masks


def joined_hosts(scenario: Scenario) -> dict[str, NDArray[np.bool_]]:
    """Return three relations of hosts, bool `[H, H]`. "subnet": both hosts are in one subnet.
    "leads to": the first host leads Red to the second host. "led to" is the inverse."""
    hosts = scenario.hosts
    n = len(hosts)
    subnet, leads = np.zeros((2, n, n), np.bool_)
    for of_subnet in scenario.subnets.values():
        numbers = [hosts.index(host) for host in of_subnet]
        subnet[np.ix_(numbers, numbers)] = True
    for host, others in scenario.leads_to.items():
        leads[hosts.index(host), [hosts.index(other) for other in others]] = True
    return {"subnet": subnet, "leads to": leads, "led to": leads.T}


def facts_of(scenario: Scenario, graph: Mapping[str, Reach]) -> NDArray[np.uint8]:
    """Return the facts about each host, `[H, len(FACTS)]`. graph: the scenario's `attack_graph`."""
    described = scenario.description()
    vulnerability = tables_of(scenario).of["vulnerability"]
    subnet_of = scenario.subnet_of
    home = subnet_of[scenario.red_host]
    depths = _depths(scenario, graph)
    rows = []
    for number, (host, facts) in enumerate(described["Hosts"].items()):
        has_ot = host in scenario.ot_hosts
        available = facts.get("AvailabilityValue", "Low") if has_ot else None
        rule = described["Subnets"][subnet_of[host]]["NACLs"].get(home, {"in": "all"})
        rows.append(
            [
                True,
                *(worth == facts.get("ConfidentialityValue", "Low") for worth in WORTHS),
                has_ot,
                *(worth == available for worth in WORTHS),
                facts["System info"]["OSType"].lower() == "windows",
                *(vulnerability[number] > 0),
                host == scenario.red_host,
                subnet_of[host] == home,
                rule["in"] == "None",
                GOAL in facts.get("info", {}),
                graph[host].is_held,
                *(depths.get(host, max(DEPTHS)) >= depth for depth in DEPTHS),
            ]
        )
    return np.array(rows, np.uint8)


def _depths(scenario: Scenario, graph: Mapping[str, Reach]) -> dict[str, int]:
    """Return, for each host that Red finds, how many hosts Red has to take first.

    Red finds a host's address on another host, or by a scan of the host's subnet. Red can scan a
    subnet after it has found one host of this subnet."""
    depths = {scenario.red_host: 0}
    scanned = {scenario.subnet_of[scenario.red_host]}
    for depth in range(1, len(graph) + 1):
        sources = depths.keys() | scanned
        found = set()
        for host, reach in graph.items():
            if host not in depths and not sources.isdisjoint(reach.found_from):
                found.add(host)
        depths |= dict.fromkeys(found, depth)
        scanned |= {scenario.subnet_of[host] for host in found}
    return depths


@functools.cache
def untold_facts(scenario: Scenario) -> NetworkFacts:
    """Return the facts of one scenario, for policies that do not observe facts."""
    return NetworkFacts([scenario], are_told=False)


def facts_for(policy: NumpyPolicy, scenarios: Sequence[Scenario]) -> NetworkFacts:
    """Return what a policy knows of scenarios, with edges if the policy's network reads edges."""
    edges = policy.parameters.network_args.get("layout", {}).get("edges", {})
    tells_edges = any(column >= 0 for rows in edges.values() for *_, column in rows)
    return NetworkFacts(scenarios, tells_edges=tells_edges)
