import numpy as np
import pytest

from workflow_rl.cage4.agent.messages import N_WORDS, alerts, spoken
from workflow_rl.cage4.agent.views import SLEEP, View, ViewRows, views_layout
from workflow_rl.cage4.scenario.scenario4 import N_ACTIONS, OBS_SIZES

SERVER, USER = 0, 6
N_MASKS = sum(N_ACTIONS)
FREE = np.zeros((1, 5), np.int64)
ALL, NO_RAW = np.ones((1, N_MASKS), np.bool_), np.zeros(0)


def begun(messages: str) -> tuple[ViewRows, np.ndarray]:
    rows = ViewRows(1, "flat", "all", messages=messages)
    obs = np.zeros((1, sum(OBS_SIZES)), np.int8)
    return rows, rows.begin([0], obs, ALL, NO_RAW, FREE)


def test_an_alert_names_the_zone_and_the_kind_of_host():
    suspected = np.zeros((2, 7, 16), np.bool_)
    suspected[0, 0, SERVER] = suspected[0, 5, USER] = suspected[1, 6, [SERVER, USER]] = True
    sent = np.zeros((2, 5, 8), int)
    sent[0, 0, 0] = 1  # Restricted A, a server: agent 0's first bit.
    sent[0, 4, 3] = 1  # Office is agent 4's second zone; a user host is the second bit of a zone.
    sent[1, 4, [4, 5]] = 1  # Public access is its third.
    assert alerts(suspected).astype(int).tolist() == sent.tolist()


def test_a_word_is_a_binary_number():
    assert N_WORDS == 4
    assert spoken(np.array([[0, 1, 2, 3, 0]]))[0, :, :3].astype(int).tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [1, 1, 0],
        [0, 0, 0],
    ]


def test_the_challenges_vectors_raise_an_alert_at_an_event_of_a_process():
    obs = np.zeros((1, sum(OBS_SIZES)), np.int8)
    # The phase, then 27 numbers of the zone, then 16 hosts.
    obs[0, OBS_SIZES[0] + 1 + 27 + USER] = 1
    assert np.argwhere(View(1).suspected([0], obs)).tolist() == [[0, 1, USER]]


def test_a_learned_word_is_sent_until_the_agent_decides_again():
    rows, _ = begun("learned")
    decided = np.array([[5 * N_WORDS + 3, *SLEEP[1:] * N_WORDS]])
    assert rows.play([0], decided).tolist() == [[5, *SLEEP[1:]]]
    obs = np.zeros((1, sum(OBS_SIZES)), np.int8)
    busy = np.array([[1, 0, 0, 0, 0]])
    rows.after([0], rows.play([0], decided), obs, NO_RAW, busy, np.zeros(1, np.bool_))
    # Agent 0 is busy: neither its action nor its word counts.
    assert rows.play([0], np.array([[0, 7 * N_WORDS + 2, *SLEEP[2:] * N_WORDS]])).tolist() == [
        [SLEEP[0], 7, *SLEEP[2:]]
    ]
    assert rows.sent[0, :2, :2].astype(int).tolist() == [[1, 1], [0, 1]]
    rows.begin([0], obs, ALL, NO_RAW, FREE)
    assert not rows.sent.any()


def test_every_word_of_a_possible_action_is_possible():
    layout = views_layout("flat", messages="learned")
    assert layout.n_actions == tuple(n * N_WORDS for n in N_ACTIONS)
    rows = ViewRows(1, "flat", "repair", messages="learned")
    obs = np.zeros((1, sum(OBS_SIZES)), np.int8)
    plain = ViewRows(1, "flat", "repair").begin([0], obs, ALL, NO_RAW, FREE)
    words = rows.begin([0], obs, ALL, NO_RAW, FREE)
    assert words.shape == (1, layout.row_size)
    masks = words[0, -N_MASKS * N_WORDS :].reshape(N_MASKS, N_WORDS)
    assert (masks == plain[0, -N_MASKS:, None]).all()


@pytest.mark.parametrize(("messages", "heard"), [("none", 0), ("alerts", 32), ("learned", 32)])
def test_only_a_team_that_sends_messages_sees_them_beside_its_belief(messages, heard):
    silent = views_layout("belief").obs_sizes
    assert views_layout("belief", messages=messages).obs_sizes == tuple(n + heard for n in silent)
    assert views_layout("flat", messages=messages).obs_sizes == OBS_SIZES
