"""The commands that only the guest CAGE-2 has."""
