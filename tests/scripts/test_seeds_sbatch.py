"""The job script for SLURM, with stand-ins for sbatch and scontrol."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from workflow_rl.runs.folder import read_summary

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "seeds.sbatch"
# Plays one job of the array after the other. The first time, the limit comes once the run has a
# checkpoint. `--signal=B:` sends the signal to the script alone.
SBATCH = r"""#!/usr/bin/env bash
set -eu
export SLURM_JOB_NAME=$2 SLURM_SUBMIT_DIR=$PWD SLURM_ARRAY_JOB_ID=77
script=$3; shift 3
cp "$script" job  # SLURM runs a copy that lies elsewhere.
signal=$(sed -n 's/^#SBATCH --signal=B:\([A-Z0-9]*\)@.*/\1/p' job)
for SLURM_ARRAY_TASK_ID in 0 1; do
  export SLURM_ARRAY_TASK_ID
  rm -f requeued
  for start in first second third; do
    bash job "$@" >> "log-$SLURM_ARRAY_TASK_ID" 2>&1 & job=$!
    if [ "$start" != third ] && [ "$SLURM_ARRAY_TASK_ID" = 1 ]; then
      metrics=runs/$SLURM_JOB_NAME/seed-1/metrics.csv
      rows=$(cat "$metrics" 2>/dev/null | wc -l)
      until [ "$(cat "$metrics" 2>/dev/null | wc -l)" -gt $((rows + 2)) ]; do sleep 0.1; done
      kill -s "${LIMIT:-$signal}" "$job"
    fi
    wait "$job" && echo ended || echo "code $?"
    [ -f requeued ] || break
    rm requeued
  done
done
"""
SCONTROL = '#!/usr/bin/env bash\n[ "$*" = "requeue 77_$SLURM_ARRAY_TASK_ID" ] && touch requeued\n'
OPTIONS = (
    "--env CartPole-v1 --total-steps 60000 --steps-per-update 1000 --hidden-sizes 8 --n-envs 4 "
    "--n-workers 1 --checkpoint-every 1 --quiet"
)


def submitted(folder: Path, **variables: str) -> list[str]:
    """What became of each start of a job, in order."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("scontrol", SCONTROL)):
        (bin_folder / name).write_text(text)
        (bin_folder / name).chmod(0o755)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    path = f"{bin_folder}:{os.environ['PATH']}"
    words = ["sbatch", "--job-name", "tiny", str(SCRIPT), *OPTIONS.split()]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **variables}
    told = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=800
    )
    return told.stdout.splitlines()


@pytest.mark.skipif(not (ROOT / ".venv").exists(), reason="the script runs .venv's Python")
def test_runs_outlive_the_time_limit(tmp_path):
    assert submitted(tmp_path) == ["ended", "code 138", "code 138", "ended"]
    stopped = read_summary(tmp_path / "runs" / "tiny" / "seed-1")
    assert stopped["finished"]
    assert (tmp_path / "log-1").read_text().count("stopped by SIGUSR1") == 2
    once = tmp_path / "once"
    words = f"train-async {OPTIONS} --seed 1 --run-dir {once}".split()
    subprocess.run(
        [ROOT / ".venv/bin/python", "-m", "workflow_rl", *words],
        **{"cwd": ROOT, "check": True, "capture_output": True},
    )
    assert stopped["weights"] == read_summary(once)["weights"]
    assert stopped["weights"] != read_summary(tmp_path / "runs" / "tiny" / "seed-0")["weights"]


@pytest.mark.skipif(not (ROOT / ".venv").exists(), reason="the script runs .venv's Python")
def test_a_cancelled_run_is_saved_and_not_queued_again(tmp_path):
    assert submitted(tmp_path, LIMIT="TERM") == ["ended", "code 143"]
    assert not read_summary(tmp_path / "runs" / "tiny" / "seed-1")["finished"]


def test_a_run_without_a_checkpoint_is_not_queued_again(tmp_path):
    """As one that copies a teacher for longer than the limit."""
    stand_ins = {
        ".venv/bin/python": "#!/usr/bin/env bash\ntrap 'exit 138' USR1\ntouch begun\n"
        "while :; do sleep 0.05; done\n",
        "bin/scontrol": SCONTROL,
    }
    for name, text in stand_ins.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    slurm = {"JOB_NAME": "x", "SUBMIT_DIR": tmp_path, "ARRAY_JOB_ID": 77, "ARRAY_TASK_ID": 1}
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    environment |= {f"SLURM_{name}": str(value) for name, value in slurm.items()}
    with subprocess.Popen(
        ["bash", SCRIPT], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as job:
        deadline = time.monotonic() + 30
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        job.send_signal(signal.SIGUSR1)
        _, told = job.communicate(timeout=30)
    assert job.returncode == 138
    assert "Not put back into the queue" in told
    assert not (tmp_path / "requeued").exists()


def test_the_page_and_the_script_name_the_same_signal():
    (asked,) = re.findall(r"^#SBATCH (--signal=\S+)$", SCRIPT.read_text(), re.M)
    assert f"`{asked}`" in (ROOT / "docs" / "how-to" / "slurm.md").read_text()
