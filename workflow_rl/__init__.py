"""How episodes are collected and runs are kept.

Importing the package registers its environment with Gymnasium: see `registration`.
"""

from workflow_rl.cage2 import registration as registration
