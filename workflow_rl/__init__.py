"""How episodes are collected and runs are kept."""
