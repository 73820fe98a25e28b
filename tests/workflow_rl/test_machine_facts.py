"""How many cores a process may keep busy, by what it is bound to and by its container's quota."""

import os

import pytest

from workflow_rl import machine_facts


def of_version_1(folder: str, quota: str, period: str) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": quota, f"{folder}/cpu.cfs_period_us": period}


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "250000 100000"}, 3),
        ("0::/", {"cpu.max": "max 100000"}, 8),
        ("0::/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2),
        ("0::/a/b", {"a/cpu.max": "400000 100000", "a/b/cpu.max": "200000 100000"}, 2),
        # The host's path, which is not there inside of the container.
        ("0::/docker/1234", {"cpu.max": "200000 100000"}, 2),
        ("4:cpu,cpuacct:/", of_version_1("cpu", "300000", "1e5"), 3),
        ("3:memory:/x\n4:cpu,cpuacct:/a", of_version_1("cpu,cpuacct/a", "100000", "100000"), 1),
        ("4:cpu:/", of_version_1("cpu", "-1", "100000"), 8),
        # Version 1 with an empty hierarchy of version 2 beside it.
        ("1:cpu:/a\n0::/", of_version_1("cpu/a", "150000", "100000"), 2),
        ("0::/", {"unified/cpu.max": "200000 100000"}, 2),
        ("0::/", {"cpu.max": "nonsense"}, 8),
        ("", {}, 8),
        ("nonsense", {}, 8),
    ],
)
def test_a_containers_quota_counts(groups, files, cores, tmp_path, monkeypatch):
    asked, root = tmp_path / "cgroup", tmp_path / "fs"
    asked.write_text(groups + "\n")
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content + "\n")
    monkeypatch.setattr(machine_facts, "CGROUPS", (asked, root))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert machine_facts.usable_cores() == cores


def test_without_control_groups_all_cores_count(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_facts, "CGROUPS", (tmp_path / "none", tmp_path))
    assert machine_facts.usable_cores() == len(os.sched_getaffinity(0))
