"""Raw records of one step, written by hand."""

from typing import Any

import numpy as np

from workflow_rl.cage4.agent.raw_record import ANALYSED, DECOYS, NUMBERS, RAW
from workflow_rl.cage4.scenario.scenario4 import AGENTS, IN_PROGRESS, N_MASKS, TRUE

SERVER, USER, OTHER_USER = 0, 9, 10
ALL_HOSTS = np.ones((1, N_MASKS), np.bool_)


def raw_record(
    busy: bool = False,
    files: tuple[int, int, int] | None = None,
    shells: tuple[tuple[int, int], ...] = (),
    source: tuple[int, int, int, int] | None = None,
    decoy: tuple[int, int] | None = None,
) -> Any:
    """A record `[1]`. files: zone, host and bits. shells: zones and hosts. source: the zone and the
    host that shows it, the number of the source, and bits of `seen`.
    decoy: zone and host that got one."""
    record = np.zeros(1, RAW)
    record["success"] = np.full(len(AGENTS), IN_PROGRESS if busy else TRUE)
    if files:
        zone, host, kinds = files
        record["files"][0, NUMBERS[zone, host]] = ANALYSED | kinds
    for zone, host in shells:
        record["n_shells"][0, NUMBERS[zone, host]] = 1
    if source:
        zone, host, number, how = source
        record["n_sources"][0, NUMBERS[zone, host]] = 1
        record["source"][0, NUMBERS[zone, host], 0] = number
        record["seen"][0, NUMBERS[zone, host], 0] = how
    if decoy:
        record["decoy"][0, NUMBERS[decoy]] = DECOYS["vsftpd"]
    return record
