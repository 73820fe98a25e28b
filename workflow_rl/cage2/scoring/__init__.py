"""How agents of CAGE-2 are scored, chosen, replayed and handed in."""
