"""The environment of CAGE Challenge 4, as users play it."""
