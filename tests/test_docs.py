"""The programs in the pages run as they stand, one after another."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["docs/environment.md"])
def test_the_programs_of_a_page_run(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    program = "\n".join(blocks)
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=120)
