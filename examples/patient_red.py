"""A red agent of CAGE-2.

python -m workflow_rl evaluate champion --red-agent examples.patient_red:PatientRed --episodes 20
"""

from workflow_rl.cage2.attackers import BLine


class PatientRed(BLine):
    """Attacks like B_lineAgent, but sleeps in every second step or so."""

    def begin(self, random):
        super().begin(random)
        self.random = random

    def act(self, seen):
        return "Sleep" if seen.success and self.random.random() < 0.5 else super().act(seen)
