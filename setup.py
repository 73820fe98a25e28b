"""What an installed package has otherwise than the checkout: `agents` and requirements.txt lie
within `workflow_rl`.

Other packages install a top-level `agents` too, and the last one installed would replace it.
pyproject.toml puts the folder there; here everybody is told to import it from there. An editable
install is the checkout, where it lies beside. requirements.txt says which versions give the stored
weights, which `doctor` compares with those that are there. All else is in pyproject.toml.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

IMPORT = re.compile(r"^(\s*(?:from|import) )agents\b", re.MULTILINE)


class BuildWithin(build_py):
    """Has modules import `workflow_rl.agents`, and the pinned versions beside them."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            package = Path(self.build_lib) / "workflow_rl"
            for path in package.rglob("*.py"):
                path.write_text(IMPORT.sub(r"\1workflow_rl.agents", path.read_text()))
            shutil.copy("requirements.txt", package)


class EditableBeside(editable_wheel):
    """Puts the checkout on the path, where `agents` lies beside `workflow_rl`.

    Without this layout setuptools would install a finder, which every process would import.
    """

    def finalize_options(self) -> None:
        self.distribution.package_dir = {"": "."}
        self.distribution.packages = ["agents", "workflow_rl"]
        super().finalize_options()


setup(cmdclass={"build_py": BuildWithin, "editable_wheel": EditableBeside})
