"""The team of this folder: a champion, with its weights."""

from pathlib import Path

from acting_champion import AGENT_FILE, ChampionTeam, load_weights
from acting_handed_in import read_handed_in


def make_team() -> ChampionTeam:
    return ChampionTeam(load_weights(Path(AGENT_FILE), read_handed_in(AGENT_FILE)))
