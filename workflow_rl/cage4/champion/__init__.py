"""How CAGE Challenge 4's champion is made: it copies the rules, learns by PPO, and is chosen."""
