"""The check on emulated processors, small: one of Intel's and one of AMD's."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_processors.py"
SIZE = ("--max-steps", "20", "--native-episodes", "240", "--episodes", "24")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-user is not installed")
def test_emulated_processors_give_the_same_weights():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *SIZE, "--cpu", "Haswell", "--cpu", "EPYC-Rome"],
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("identical") >= 7
    assert "IvyBridge, emulated         refused" in done.stdout
