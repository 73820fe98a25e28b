"""The commands that only the guest of workflows has."""
