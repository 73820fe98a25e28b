"""Joins files of recorded episodes, of the same environment and options.

python -m workflow_rl record decoys good.npz --episodes 100
python -m workflow_rl record react-restore bad.npz --episodes 100
python examples/join_episodes.py good.npz bad.npz both.npz
"""

import sys

import numpy as np

*names, target = sys.argv[1:]
files = [np.load(name) for name in names]
joined = {
    name: np.concatenate([file[name] for file in files])
    for name in files[0].files
    if name != "settings"
}
joined["episode"] = np.arange(len(joined["length"]))
np.savez(target, settings=files[0]["settings"], **joined)
