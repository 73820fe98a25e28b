"""Templates of the pages of episodes, which all challenges share."""
