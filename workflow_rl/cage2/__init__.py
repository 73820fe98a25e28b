"""CAGE Challenge 2, the first guest: CybORG and its speed-ups, the compiled simulator, scores."""
