"""A training run: what was asked, its config, its loop, its folder."""
