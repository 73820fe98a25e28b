"""Scenario 1b of CAGE Challenge 1, made from Scenario 2 by its differences.

The facts come from the official `Scenario1b.yaml` and its host images in the repository of CAGE
Challenge 1 (copyright DST Group, MIT licence). Hosts, subnets, links and values equal Scenario 2's.
"""

from __future__ import annotations

from typing import Any

from workflow_rl.cage2.scenario.actions import RED_ACTIONS, blue_kinds

RULES = "CAGE-1"
"""The value of Rules in a scenario with the rules of CAGE Challenge 1."""
USERS = {
    **dict.fromkeys(("User0", "User1", "User2"), "windows_user_host"),
    **dict.fromkeys(("User3", "User4"), "linux_user_host"),
}
"""The image of each host in the subnet User."""


def scenario1b(data: dict[str, Any]) -> dict[str, Any]:
    """Turn the content of Scenario 2 into the content of Scenario 1b. Images in `data` must not
    share objects, because this changes some of them."""
    data["Agents"]["Blue"]["actions"] = list(blue_kinds(1))
    data["Agents"]["Red"]["actions"] = list(RED_ACTIONS)
    images = data["Images"]
    windows, linux = images["windows_user_host2"], images["linux_user_host2"]
    smb, rpc, rdp = windows["Processes"]
    ssh, web = linux["Processes"][:2]
    ssh_exe, _, internal_rdp = images["Internal"]["Processes"][:3]
    for process in (rdp, internal_rdp):
        del process["Process Type"]
    images["windows_user_host"] = {**windows, "Processes": [ssh_exe, rpc, rdp, smb]}
    images["linux_user_host"] = {**linux, "Processes": [ssh, web]}
    for host, image in USERS.items():
        data["Hosts"][host]["image"] = image
    data["Rules"] = RULES
    used = {host["image"] for host in data["Hosts"].values()}
    data["Images"] = {name: image for name, image in images.items() if name in used}
    return data
