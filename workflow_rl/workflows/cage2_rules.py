"""The rules of a workflow on CAGE-2. Blue's belief tells which groups of hosts need fixing.

Submissions contain a copy of this module, so it needs only NumPy and `agents`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.agent.network_facts import untold_facts
from workflow_rl.cage2.agent.views import ActionSet
from workflow_rl.cage2.scenario.actions import BLUE
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import CONTESTED, HOSTS
from workflow_rl.workflows.order import NOBODY, Bools, Numbers, parsed

UNIT_TYPES = (
    "enterprise: Enterprise0 Enterprise1 Enterprise2; op_server: Op_Server0; "
    "op_hosts: Op_Host0 Op_Host1 Op_Host2; defender: Defender; "
    "users: User0 User1 User2 User3 User4"
)
"""The five types of units (groups of hosts) of Jiang et al. (L4DC 2026)."""
FIXES = tuple(kind for kind, about in BLUE.items() if about.leaves)
LIKELY = 1
"""The index of 0.5 in `blue_belief.THRESHOLDS`."""


class HostRules:
    """The rules of a workflow on CAGE-2's belief: see `rules.WorkflowRules`.

    A group needs fixing while Blue believes, with a probability above 0.5, that Red has a session
    on one of its hosts. Remove and Restore fix a host's group. workflow: see `order.parsed`.
    Raises ValueError.
    """

    def __init__(self, workflow: str, actions: str) -> None:
        from workflow_rl.cage2.compiled.blue_belief import N_SHOWN, WORTH_A_DECOY, columns_shown

        self.workflow = parsed(workflow, HOSTS, CONTESTED)
        self.n_own = N_SHOWN
        # Of a host's four probabilities, the first is the probability that Red has a session there.
        columns = columns_shown(len(WORTH_A_DECOY))["of hosts"][:, LIKELY].tolist()
        self._session_bits: dict[str, int] = dict(zip(CONTESTED, columns, strict=True))
        self._bits = [self._bits_of(hosts) for hosts in self.workflow.members]
        choices = ActionSet(actions, untold_facts(Scenario.scenario2())).names
        self._fixes = np.array([self._fixed_by(choice) for choice in choices])

    def _bits_of(self, hosts: Sequence[str]) -> list[int]:
        return [self._session_bits[host] for host in hosts]

    def _fixed_by(self, action: str) -> int:
        kind, _, target = action.partition(" ")
        if kind in FIXES:
            for group, hosts in enumerate(self.workflow.members):
                if target in hosts:
                    return group
        return NOBODY

    def needs(self, obs: NDArray[Any]) -> Bools:
        """Return whether each group needs fixing, bool [M, G], for beliefs [M, N_SHOWN]."""
        return np.stack([(obs[:, bits] > 0).any(axis=1) for bits in self._bits], axis=1)

    def fixes(self, obs: NDArray[Any]) -> Numbers:
        """Return the group that each action fixes, int64 [M, A]. All M rows are equal."""
        return np.broadcast_to(self._fixes, (len(obs), len(self._fixes)))
