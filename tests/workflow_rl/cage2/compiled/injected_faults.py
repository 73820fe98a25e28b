"""An agent for other processes, which import this module and not all that the tests import."""

from typing import Any

from workflow_rl.cage2.agent.scripted import SleepAgent
from workflow_rl.cage2.compiled.simulator import CompiledSimulator


class InjectsFaults(SleepAgent):
    """Sleeps; where it plays, hidden state is wrong from seed 51 on."""

    def memory(self, seed: int) -> None:
        step = CompiledSimulator.step

        def step_with_fault(simulator: CompiledSimulator, action: int) -> Any:
            result = step(simulator, action)
            simulator.state["has_malware"] = seed >= 51
            return result

        CompiledSimulator.step = step_with_fault  # type: ignore[method-assign]
