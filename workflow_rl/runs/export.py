"""A trained agent in formats of other programs, and folders of submissions to a challenge: an
agent, and copies of the modules that act."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.numpy_policy import Parameters, PolicyParameters
from workflow_rl.agents.policies.policy_file import save_policy
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.environments.challenge import Export, Exported
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.source import guests
from workflow_rl.errors import ConfigError
from workflow_rl.output_files import put, replacing
from workflow_rl.runs.handed_in import LIST
from workflow_rl.runs.saved_agent import named_in_file


def _onnx_model(actor: Any, example: Mapping[str, Any]) -> bytes:
    """Return an actor as an ONNX model. Raises ConfigError.

    example: examples of the actor's inputs, by name.
    """
    try:
        import onnxscript  # noqa: F401 (torch's exporter needs it, and its own error is long)
    except ModuleNotFoundError:
        raise ConfigError(
            "format", "this needs more packages: pip install onnx onnxscript"
        ) from None
    import torch

    batch = torch.export.Dim("batch")
    # The exporter warns that torchvision is missing, among others.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = torch.onnx.export(
                actor,
                tuple(example.values()),
                input_names=list(example),
                output_names=["outputs", "next_state"][: 1 + ("state" in example)],
                dynamic_shapes={name: {0: batch} for name in example},
                dynamo=True,
                verbose=False,
            )
        except Exception as error:  # A user's module can hold anything.
            problem = in_one_line(error)
            raise ConfigError("format", f"torch cannot write it as ONNX: {problem}") from error
    assert program is not None
    model: bytes = program.model_proto.SerializeToString()
    return model


FORMATS = ("onnx", "npz")
"""The general formats. A guest has further formats, which fill a folder."""


def _write_network(policy: Any, path: Path, n_agents: int = 1) -> None:
    """Write the actor's network for any batch size. n_agents: how many agents share the policy."""
    model = _onnx_model(*_actor_and_example(policy, n_agents=n_agents))
    with replacing(path, "wb") as file:
        file.write(model)


def _write_networks(team: Any, environment: Environment, folder: Path) -> None:
    """Write a file for each policy of a team, and team.json, which lists each file's agents."""
    folder.mkdir()
    files = []
    for number, (name, policy) in enumerate(team.parameters.items()):
        file = f"policy-{number}.onnx"
        agents = [team.layout.agents[place] for place in team.policies[name]]
        _write_network(policy, folder / file, len(agents))
        files.append({"file": file, "policy": name, "agents": agents})
    (folder / "team.json").write_text(json.dumps(files, indent=1) + "\n")


def fills_folder(policy: Exported, format_: str) -> bool:
    """Return whether an export fills a folder. Other exports write one file."""
    return format_ not in FORMATS or (format_ == "onnx" and isinstance(policy, TeamParameters))


def _actor_and_example(
    policy: PolicyParameters, obs_dim: int | None = None, n_agents: int = 1
) -> tuple[Any, dict[str, Any]]:
    """Return the actor, and examples of its inputs: observations, the number of the acting agent if
    there are several, and states if the network has them.

    obs_dim: the length of an observation, if the policy does not know it.
    """
    import torch

    from workflow_rl.agents.policies.torch_actor import SharedActor, TorchActor

    actor: Any = TorchActor(policy)
    example = {"obs": torch.ones(2, obs_dim or policy.obs_dim_of(policy.described()))}
    if n_agents > 1:
        example = {"obs": example["obs"][:, n_agents:], "agent": torch.arange(2)}
    if actor.state_size:
        example["state"] = torch.zeros(2, actor.state_size)
    actor = SharedActor(actor, n_agents) if n_agents > 1 else actor
    return actor.eval().requires_grad_(False), example


def _handed_in(policy: PolicyParameters) -> PolicyParameters:
    """Return the policy for a submission's folder, without torch. Raises ConfigError."""
    network = policy.described()
    if network.needs is None:
        return policy
    from workflow_rl.runs.onnx_networks import OnnxNetwork

    NETWORKS[OnnxNetwork.kind] = OnnxNetwork
    takes_mask = policy.masked and network.sees_mask
    bare = policy._replace(obs_mean=None, obs_scale=None, masked=False, distribution=None)
    n_columns = network.n_inputs + takes_mask * network.n_outputs
    model = np.frombuffer(_onnx_model(*_actor_and_example(bare, n_columns)), np.uint8)
    args = {
        **{"n_inputs": network.n_inputs, "n_outputs": network.n_outputs},
        **{"state_size": network.memory_size, "takes_mask": takes_mask},
    }
    return policy._replace(
        weights=(model.astype(np.float32),),
        biases=(np.zeros(0, np.float32),),
        network=OnnxNetwork.kind,
        network_args=args,
    )


def write_policy(policy: Parameters, environment: Environment, path: Path) -> None:
    """Write a policy or a team as this package's own file of plain arrays, which `evaluate` takes.

    Raises ConfigError.
    """
    for member in members_of(policy):
        if member.described().needs is not None:
            raise ConfigError(
                "format",
                f"npz holds networks that act without torch, and {member.network} needs "
                "torch: give onnx",
            )
    with replacing(path, "wb") as file:
        save_policy(file, policy, named_in_file(environment))


def export_policy(
    policy: Exported,
    environment: Environment,
    format_: str,
    output: Path,
    write: Export | None = None,
) -> None:
    """Write an agent in one of FORMATS, or in a format of the environment's guest.

    output: the file, or a new or empty folder, or a new .zip of the folder: see `fills_folder`.
    write: fills the folder for any other format.

    Raises ConfigError, also if agents of this environment cannot be written.
    """
    if format_ == "npz":
        assert not isinstance(policy, str), "a scripted agent has no policy"
        write_policy(policy, environment, output)
        return
    if not fills_folder(policy, format_):
        _write_network(policy, output)
        return
    try:
        if format_ == "onnx":
            write = _write_networks
        elif write is None:
            write = _guests_export(environment, format_)
            if isinstance(policy, PolicyParameters):
                policy = _handed_in(policy)
            elif isinstance(policy, TeamParameters):
                members = {name: _handed_in(member) for name, member in policy.parameters.items()}
                policy = policy._replace(parameters=members)
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise ConfigError("output", f"{output} is not empty: give a new or empty folder")
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=".export-") as temporary:
            # The whole folder appears in one step, or not at all.
            whole = Path(temporary) / "whole"
            write(policy, environment, whole)
            if output.suffix == ".zip":
                whole = Path(shutil.make_archive(str(whole), "zip", whole))
            put(whole, output)
    except OSError as error:
        raise ConfigError("output", f"{output} cannot be written: {error.strerror}") from None
    finally:
        # Files that are read later must not be able to name this network.
        NETWORKS.pop("onnx", None)


def _guests_export(environment: Environment, format_: str) -> Export:
    guest = guests.get(environment.env_id)
    write = None if guest is None else guest.exports().get(format_)
    if write is None:
        raise ConfigError("format", f"{format_} is not for agents of {environment.env_id}")
    return write


_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(
    r"^( *)from workflow_rl\.(?:(errors) import|\w+(?:\.policies|\.agent|\.compiled|\.scenario)?"
    r"(?:\.(\w+) import|( import \w+(?:, \w+)*$)))",
    re.M,
)

_NETWORKS = "workflow_rl.agents.policies.networks"
_ONNX_NETWORKS, _HANDED_IN = "workflow_rl.runs.onnx_networks", "workflow_rl.runs.handed_in"
NUMPY_POLICY = (
    "workflow_rl.agents.policies.convolutional",
    "workflow_rl.agents.policies.distributions",
    "workflow_rl.agents.policies.entities",
    "workflow_rl.agents.policies.entity_layout",
    "workflow_rl.agents.policies.further_distributions",
    "workflow_rl.agents.policies.network",
    _NETWORKS,
    "workflow_rl.agents.policies.numpy_policy",
    "workflow_rl.agents.policies.policy_file",
    "workflow_rl.agents.policies.recurrent",
    "workflow_rl.errors",
)
"""The modules that read a policy from a file and act."""
ACTING = "acting_"
"""The beginning of the copies' names."""


def members_of(exported: Any) -> list[PolicyParameters]:
    """Return the policies of an exported agent: several for a team, none for a scripted agent."""
    if isinstance(exported, PolicyParameters):
        return [exported]
    return [*getattr(exported, "parameters", {}).values()]


def needs_of(exported: Any) -> str:
    """Return lines for a requirements.txt: the packages that the networks need beside NumPy."""
    needs = {member.described().needs for member in members_of(exported)}
    return "".join(f"{package}\n" for package in needs if package)


def write_handed_in(
    folder: Path,
    exported: Any,
    about: Mapping[str, Any],
    weights: str,
    modules: Sequence[str],
    files: Mapping[str, Path | str],
) -> None:
    """Fill a new folder with the modules and weights of an agent, and with the challenge's files.

    Args:
        exported: the agent. A policy or a team is saved as the file `weights`, with `about`.
        modules: the acting modules, beside NUMPY_POLICY.
        files: files to copy, or texts, by their names in the folder.
    """
    _copy_modules((*NUMPY_POLICY, *modules), folder, exported)
    if isinstance(exported, PolicyParameters | TeamParameters):
        save_policy(folder / weights, exported, about)
    for name, content in files.items():
        if isinstance(content, Path):
            shutil.copy(content, folder / name)
        else:
            (folder / name).write_text(content)
    # The list has the format of `sha256sum`.
    listed = sorted([*folder.glob(f"{ACTING}*"), *folder.glob("*.npz"), *folder.glob("*.json")])
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in listed]
    (folder / LIST).write_text("\n".join(lines) + "\n")


def _copy_modules(modules: Sequence[str], folder: Path, exported: Any) -> None:
    """Copy modules into a new folder: `acting_x.py` is the copy of the module x.

    The agent's networks decide which modules are copied. The copies import each other, so two
    modules must not have the same name. All copies are in the folder itself, because CAGE-4's
    instruction to pack with `zip` would leave inner folders empty.
    """
    folder.mkdir(parents=True)
    names = {module: module.rpartition(".")[2] for module in (*modules, _HANDED_IN)}
    if any(member.described().needs for member in members_of(exported)):
        del names[_NETWORKS]
        names[_ONNX_NETWORKS] = _NETWORKS.rpartition(".")[2]
    for module, name in names.items():
        source = _PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text()
        (folder / f"{ACTING}{name}.py").write_text(_IMPORT.sub(_flat, source))


def _flat(statement: re.Match[str]) -> str:
    indent, errors, module, names = statement.groups()
    if errors or module:
        return f"{indent}from {ACTING}{errors or module} import"
    return indent + re.sub(r"(?<= )(?!import\b)(\w+)", rf"{ACTING}\1 as \1", names.strip())
