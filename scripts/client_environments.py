"""A virtual environment for each peer, `.peers/NAME`, with this package and no other peer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from check_clients import ROOT, build_wheel

FOLDER = ROOT / ".peers"
HERE = Path(__file__).resolve().parent
PACKAGES = {
    "cleanrl": "torch",
    "rllib": "ray",
    "sample_factory": "sample-factory",
    "sb3": "stable-baselines3",
    "tianshou": "tianshou",
    "torchrl": "torchrl",
}
"""Of each peer, the distribution whose version is told."""
IN_PROCESS = ("cleanrl", "sb3", "tianshou", "torchrl")
"""Those with a process for each env, which can do without: better where a step takes little."""
# Asks for Gymnasium below 1.0 and NumPy below 2 but works with those the environment needs.
WITHOUT_DEPENDENCIES = ("sample_factory",)


def install(peer: str, folder: Path) -> Path:
    """Make it unless it is there, with the wheel of this checkout built in `folder`. Its Python."""
    environment = FOLDER / peer
    python = environment / "bin" / "python"
    wheels = list(folder.glob("*.whl"))
    wheel = wheels[0] if wheels else build_wheel(folder)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if peer in WITHOUT_DEPENDENCIES:
        subprocess.run([*pip, "--no-deps", "-r", str(HERE / f"{peer}_ppo.txt")], check=True)
    else:
        requirements = ROOT / "examples" / "requirements" / f"{peer}_ppo.txt"
        subprocess.run([*pip, str(wheel), "-r", str(requirements)], check=True)
    # The same version may be there already, of other code.
    subprocess.run([*pip, "--no-deps", "--force-reinstall", str(wheel)], check=True)
    return python


def versions(python: Path, peer: str) -> dict[str, str]:
    """Of the peer, and of what its speed depends on."""
    names = [PACKAGES[peer], "gymnasium", "numpy", "torch"]
    code = f"import json\nfrom importlib.metadata import version\n\
print(json.dumps({{name: version(name) for name in {names}}}))"
    shown = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    told: dict[str, str] = json.loads(shown.stdout)
    return {name: number.partition("+")[0] for name, number in told.items()}
