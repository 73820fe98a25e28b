"""The steps of docs/how-to/cluster.md on two machines with addresses of their own."""

import re
import time

import pytest

from tests.two_nodes import HOME, ROOT, Machine, two_machines, why_not

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=str(why_not()))]

PAGE = (ROOT / "docs/how-to/cluster.md").read_text()
TRAIN = "python -m workflow_rl train-async --red-agent mixed --simulator compiled --n-envs 12 "
TRAIN += "--async-rl --n-workers 3 --total-episodes 4800 --quiet"
DIGEST = """
import sys
from pathlib import Path
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.folder import weights_digest
checkpoint = load_checkpoint(Path(sys.argv[1]) / "checkpoint.safetensors")
print(weights_digest(checkpoint.agent["network"]))
"""


def step(pattern: str) -> str:
    """Return the page's command that matches."""
    (found,) = set(re.findall(rf"^ *(ray {pattern}.*)$", PAGE, re.MULTILINE))
    return str(found)


def weights(machine: Machine, run: str) -> str:
    return machine.run("python", "-c", DIGEST, f"/tmp/{run}")


def updates(machine: Machine, run: str) -> int:
    return int(machine.run("sh", "-c", f"cat /tmp/{run}/metrics.csv 2>/dev/null | wc -l")) - 1


def joined(first: Machine, second: Machine) -> None:
    """Follow the page's steps 3 to 5."""
    first.run("sh", "-c", step("get-auth-token"))
    first.run("sh", "-c", step("start --head") + " --num-cpus 2")
    token = first.run("cat", f"{HOME}/.ray/auth_token")
    second.run("sh", "-c", f"mkdir -p {HOME}/.ray && printf %s '{token}' > {HOME}/.ray/auth_token")
    second.run("sh", "-c", step("start --address") + " --num-cpus 2")
    deadline = time.monotonic() + 60
    while first.run("ray", "status").count("1 node_") < 2:
        assert time.monotonic() < deadline, "the second machine has not joined"
        time.sleep(1)


@pytest.mark.timeout(900)
def test_the_weights_are_those_of_pipes_on_a_slow_link_and_after_a_cut():
    with two_machines() as (first, second, link):
        joined(first, second)
        first.run("sh", "-c", f"{TRAIN} --cluster none --run-dir /tmp/pipes")
        link.delay = 0.05
        first.run("sh", "-c", f"{TRAIN} --cluster auto --run-dir /tmp/slow", timeout=600)
        assert weights(first, "slow") == weights(first, "pipes")
        run = first.start("sh", "-c", f"{TRAIN} --cluster auto --run-dir /tmp/cut")
        while updates(first, "cut") < 20:
            assert run.poll() is None, run.communicate()[0]
            time.sleep(0.5)
        link.is_cut = True
        time.sleep(20)
        assert run.poll() is None, "the run ended before the link was mended"
        link.is_cut = False
        output, _ = run.communicate(timeout=600)
        assert run.returncode == 0, output
        assert weights(first, "cut") == weights(first, "pipes")
