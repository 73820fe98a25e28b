"""A module for the workers' fork server that takes it seconds, as one that compiles does."""

import time

while time.process_time() < 3.0:
    pass
