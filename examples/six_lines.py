"""A red agent of CAGE-4.

python -m workflow_rl evaluate rules --env workflow_rl/CAGE4-v0 --episodes 20 \
  --red-agent examples.six_lines:SixLines
"""


class SixLines:
    """Impact if possible, else escalate, exploit, scan."""

    ORDER = ("Impact", "PrivilegeEscalate", "ExploitRemoteService", "AggressiveServiceDiscovery")

    def begin(self, random):
        self.random = random

    def act(self, seen):
        possible = seen.possible
        for kind in self.ORDER:
            if options := [name for name in possible if name.startswith(kind)]:
                return self.random.choice(options)
        return self.random.choice(possible)
