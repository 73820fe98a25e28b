"""Starts commands and programs in forks of a process that has imported torch, which takes seconds.

Reads jobs from its standard input, JSON in a line each: "folder", "output", and "command", a list
of words, or "program", Python code. Writes the exit code of each. A fork ends as any process does.
"""

from __future__ import annotations

import json
import os
import sys

import torch  # noqa: F401

import workflow_rl.api  # noqa: F401
from workflow_rl.commands import check_env, evaluate, replay, train  # noqa: F401
from workflow_rl.commands.main import main

if __name__ == "__main__":
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            break
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    else:
        sys.exit()
    os.setpgid(0, 0)
    os.chdir(job["folder"])
    sys.path[:] = [path for path in sys.path if path]
    for source, flags, numbers in (
        ("/dev/null", os.O_RDONLY, (0,)),
        (job["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, (1, 2)),
    ):
        file = os.open(source, flags)
        for number in numbers:
            os.dup2(file, number)
    sys.argv = ["workflow-rl", *job.get("command", ())]
    if "command" in job:
        main()
    else:
        exec(job["program"], {"__name__": "__main__"})
