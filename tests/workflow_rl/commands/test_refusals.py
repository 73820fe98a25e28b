"""What no command takes is refused in one line that names it, before anything is written."""

import pytest

from tests.cli import call, refused

LIKE_FIELDS = "n_envs/hidden_sizes/eval_every"
"""A user's own words, which are named as fields of the config and of its settings are."""
LACKS_MASK = "tests.workflow_rl.commands.test_errors:MisnamedMask"
CAGE4 = "--env workflow_rl/CAGE4-v0"
ON_POLE = "--env CartPole-v1"
POLE = f"train-async {ON_POLE}"
OF_THE_USER = "train-async --env tests.any_envs:"
OWN = f"{POLE} --algorithm tests.agents.test_algorithm:REINFORCE"
SEVERAL = "train-population --env CartPole-v1"
DUEL = "train-duel --env examples.small_games:Matrix"
TUNE = "tune --env CartPole-v1 --trials 1"

OPTIONS = [
    ("train-async --red-agent Nobody", "--red-agent: 'Nobody' is no red agent: choose B_lineAgent"),
    ("train-sync --n-envs 0", "'--n-envs': 0 is not in the range 1<=x"),
    ("train-async --n-envs many", "'--n-envs': 'many' is not"),
    ("train-sync --clip-range -1", "'--clip-range': -1.0 is not"),
    ("train-async --discount 1.5", "'--discount': 1.5 is not"),
    ("train-async --resume", "--resume FOLDER"),
    ("train-async --learning-rate nan", "'--learning-rate': nan is not"),
    ("train-sync --worker-timeout inf", "'--worker-timeout': inf is not"),
    ("train-async --seed 99999999999999999999", "--seed: 99999999999999999999 is not"),
    ("train-sync --hidden-sizes 64,x", "'--hidden-sizes': '64,x' is not", "64,64"),
    ("train-async --simulator cyborg-stock", "'cyborg-stock' is not one of 'compiled', 'cyborg'"),
    (f"{POLE} --env-arg wheels=3", "--env: CartPole-v1 cannot be made", "'wheels'"),
    (f"{POLE} --env-arg wheels", "'--env-arg': 'wheels' is not of the form key=value"),
    (f"{POLE} --env-arg =3", "'--env-arg': '=3' is not of the form key=value"),
    (f"{POLE} --red-agent B_lineAgent", "--red-agent does not apply to CartPole-v1", "CAGE2"),
    (f"{POLE} --simulator compiled", "--simulator does not apply to CartPole-v1", "CAGE2"),
    (f"{POLE} --max-steps 9", "--max-steps does not", "--env workflow_rl/CAGE2-v0, --env w"),
    ("train-async --max-steps 9 --env-arg max_steps=8", "--env-arg max_steps is given twice"),
    ("train-async --env-arg max_steps=abc", "--max-steps: 'abc' is not"),
    ("train-async --env-arg max_steps=1.5", "--max-steps: 1.5 is not"),
    ("train-async --env-arg max_steps=null", "--max-steps: None is not"),
    ("train-async --env-arg max_steps=0", "--max-steps: 0 is not"),
    (
        f"{POLE} --total-steps 9 --total-episodes 9",
        "--total-steps: 9 does not go with --total-episodes, 9",
    ),
    (
        f"{POLE} --steps-per-update 9 --episodes-per-update 9",
        "--steps-per-update: 9 does not go with --episodes-per-update, 9",
    ),
    (f"{POLE} --minibatch-size 1", "--minibatch-size: 1 is too small: it must be 2 or greater"),
    (f"{POLE} --init-from nowhere", "there is no checkpoint at nowhere"),
    (f"{POLE} --eval-every 10 --patience 3", "--patience: 3 does not go with --eval-every, 10:"),
    ("train-sync --preset alf", "--preset alf (--batching first-come)"),
    (f"{OWN} --setting nonsense=1", "--setting nonsense is no setting of tests.agents.test_alg"),
    (f"{OWN} --setting passes=0", "--setting passes: 0 is not"),
    (f"{OWN} --epochs 1", "--epochs does not apply to ", "--algorithm ppo"),
]
ENVIRONMENTS = [
    (f"{OF_THE_USER}BrokenEnv", "--env: tests.any_envs:BrokenEnv cannot be made: OSError: the lic"),
    (f"{OF_THE_USER}FailingResetEnv", "--env: ", "cannot be played: OSError: the map is missing"),
    (f"train-async --env {LACKS_MASK}", "'valid_mask'", "from 'action_mask' in info", "--no-actio"),
    (f"{OF_THE_USER}TargetEnv --preset cage2-quick", "this preset, which is for workflow_rl/CAGE2"),
    (f"train-async {CAGE4} --red-agent B_lineAgent", "'B_lineAgent' is no red agent: choose Fin"),
    (f"train-async {CAGE4} --simulator cyborg", "--simulator: CybORG 4 is needed"),
    ("train-async --red-agent DiscoveryFSRed", "'DiscoveryFSRed' is no red agent: choose B_line"),
    (f"train-async {CAGE4} --opening Sleep", "--opening does not apply to workflow_rl/CAGE4-v0 "),
    (f"parity {CAGE4} --network-episodes 2", "--network-episodes does not apply to workflow_rl/C"),
    (f"parity {CAGE4} --red-agent B_lineAgent", "'B_lineAgent' is not one of 'FiniteStateRedAg"),
    (f"evaluate {CAGE4} --agent react-remove", "'react-remove' is not one of 'sleep', 'random'"),
    ("check-env tests.any_envs:BrokenEnv", "ENV_ID: ", "OSError: the licence"),
    ("check-env CartPole-v1 --env-arg wheels", "'--env-arg': 'wheels' is not of the form key=val"),
]
TEACHERS = [
    (f"{POLE} --teacher champion", "--teacher: ", "other observations"),
    (f"{POLE} --teacher ''", "names no agent"),
    (f"{POLE} --teacher x --teacher-episodes 1", "'--teacher-episodes': 1 is not"),
    (f"{POLE} --teacher-episodes 5", "--teacher-episodes: ", "goes with --teacher"),
    (f"{POLE} --teacher-coef 5", "--teacher-coef: ", "goes with --teacher"),
    (f"{POLE} --teacher-until 0", "--teacher-until", "range"),
    ("train-async --env workflow_rl/OrderedCAGE2-v0 --teacher react-restore", "keeps no order"),
    (f"{TUNE} --teacher nobody --run-dir search", "no checkpoint at nobody"),
]
MBPO = "train-async --algorithm mbpo"
SAC = "train-async --algorithm sac"
OFF_POLICY = [
    ("train-async --batch-size 8", "option of --algorithm sac, --algorithm mbpo"),
    (f"{MBPO} --batch-size 0", "--batch-size"),
    (f"{MBPO} --model-elites 9", "--model-elites: 9"),
    (f"{MBPO} --clip-range 0.1", "it is an option of --algorithm ppo"),
    (f"{MBPO} --learner-threads 2", "--learner-threads"),
    (f"{SAC} --replay-capacity 1999", "--replay-capacity: 1999"),
    (f"{SAC} --start-steps 9", "option of --algorithm mbpo"),
    (f"{SAC} --model-members 9", "option of --algorithm mbpo"),
    (f"{SAC} --rollout-length 9", "option of --algorithm mbpo"),
    (f"{SAC} --imagined-share .5", "--imagined-share"),
    ("train-population --algorithm mbpo", "--algorithm"),
    ("tune --algorithm mbpo --trials 1", "--algorithm"),
]
USERS_WORDS = [
    ("train-async --env n_envs:total_steps", "n_envs:total_steps"),
    (f"train-sync --teacher {LIKE_FIELDS}", LIKE_FIELDS),
    (f"train-sync --init-from {LIKE_FIELDS}", LIKE_FIELDS),
    (f"train-async --env-python {LIKE_FIELDS}", LIKE_FIELDS),
    ("train-async --network hidden_sizes:total_steps", "hidden_sizes:total_steps"),
    ("train-async --algorithm n_envs:minibatch_size", "n_envs:minibatch_size"),
    (f"train-async --scenario {LIKE_FIELDS}", LIKE_FIELDS),
    (f"train-async --red-agent {LIKE_FIELDS}", LIKE_FIELDS),
    ("train-async --seed 0 --cluster n_envs:total_steps", "n_envs:total_steps"),
    ("train-workflow --run-dir unused --order n_envs,total_steps", "'n_envs'"),
    ("train-population --env n_envs:total_steps", "n_envs:total_steps"),
    ("tune --trials 1 --env n_envs:total_steps", "n_envs:total_steps"),
]
SEVERAL_POLICIES = [
    (f"{POLE} --n-policies 2 --num-steps-per-env 8", "--num-steps-per-env: 8 does not go with sev"),
    (f"{POLE} --n-policies 2 --preset continuous", "first-come does not go with several policies"),
    (f"{POLE} --n-policies 0", "'--n-policies': 0 is not"),
    (f"{SEVERAL} --n-policies 1", "--n-policies: a population has 2 or more"),
    (f"{SEVERAL} --async-rl", "--async-rl: workers collect for one policy while another learns"),
    (f"{SEVERAL} --preset alf", "--preset alf (--async-rl True): "),
    (f"{SEVERAL} --preset sample-factory-sync", "(--num-steps-per-env 32): 32 does not go with"),
    (f"{SEVERAL} --range epochs=1:3", "'--range': 'epochs' is not one of learning-rate"),
    (f"{SEVERAL} --range learning-rate=3", "'--range': 'learning-rate=3' is not"),
    (f"{SEVERAL} --range learning-rate=1:0.1", "--range: learning_rate=1:0.1 is no range"),
    (f"{SEVERAL} --perturb-min 2", "--perturb-max: 1.5 is too small"),
    (f"{SEVERAL} --learning-rate 1 --range learning-rate=1:2", "--learning-rate: it has a value"),
    (f"{SEVERAL} --learning-rate 0.1 --entropy-coef 0", "--range: nothing is left to differ"),
]
DUELS = [
    ("train-duel --env CartPole-v1", "--env: CartPole-v1 has no sides: one agent plays"),
    ("train-duel --env CartPole-v1 --dry-run", "--env: CartPole-v1 has no sides: one agent plays"),
    ("train-duel --env tests.tiny_teams:Doors", "say which agents are which of two sides"),
    (f"{DUEL} --start first", "'--start': 'first' is not of the form"),
    (f"{DUEL} --start third=x.npz", "--start: third is no side: there is first and second"),
    (f"{DUEL} --opponents strongest", "'--opponents': 'strongest' is not one of"),
    (f"{DUEL} --n-policies 2", "No such option '--n-policies'"),
    (f"{DUEL} --on-update builtins:print", "No such option '--on-update'"),
    (f"{DUEL} --warm-start --warm-start-side third", "--warm-start-side: third is no side"),
    (f"{DUEL} --warm-start-side first", "--warm-start-side: first: it goes with --warm-start"),
]
SEARCHES = [
    ("tune --env CartPole-v1", "say how long to search: --trials N"),
    ("tune --env CartPole-v1 --trials 0", "'--trials': 0 is not"),
    ("tune --env CartPole-v1 --minutes 0", "'--minutes': 0.0 is not"),
    (f"{TUNE} --range gamma=1:2", "'--range': 'gamma' is not one of learning-rate"),
    (f"{TUNE} --range epochs=5:2", "--range: epochs=5:2 is no range"),
    (f"{TUNE} --range epochs=0.2:0.4", "--range: epochs=0.2:0.4: epochs: 0.2 is not allowed"),
    (f"{TUNE} --range minibatch-size=1:2", "--range: ", "1 is too small: it must be 2"),
    (f"{TUNE} --preset continuous", "--preset continuous (--batching first-come)"),
    (f"{TUNE} --init-from run", "--init-from is not for a search"),
    (f"{TUNE} --cluster 127.0.0.1:1 --n-workers 2", "--cluster: 127.0.0.1:1 "),
    ("tune --resume nowhere --trials 1", "nowhere is no folder of tune's"),
]
FILES = [
    (f"record champion x.npz {ON_POLE}", "AGENT: champion, ", "other observations"),
    ("record no_such:act x.npz", "'AGENT': no_such:act cannot be imported"),
    ("record math:floor x.npz --env no_such_module:Env", "--env: no_such_module:Env cannot be"),
    ("record math:no_such_name x.npz", "'AGENT': math:no_such_name: math defines no no_such_name"),
    ("record decoys x.parquet", "'FILE': x.parquet: give a name that ends in .npz"),
    ("record decoys no/such/folder/x.npz", "FILE: no/such/folder/x.npz cannot be written"),
    ("record decoys x.npz --env-arg color=red", "--env-arg: 'color' is no argument of workflow_rl"),
    ("plot", "Missing argument 'RUNS...'"),
    ("plot nothing --output a.png", "nothing is not a run folder"),
    ("plot run --output x.gif", "'--output': x.gif: give a name that ends in .png or .pdf or .svg"),
    ("evaluate sleep --json x.gif", "'--json': x.gif: give a name that ends in .json"),
    ("benchmark --png x.gif", "'--png': x.gif: give a name that ends in .png"),
    ("benchmark --json x.gif", "'--json': x.gif: give a name that ends in .json"),
    ("benchmark --json no/such/x.json", "Invalid value for --json: no/such/x.json"),
    ("benchmark --png no/such/x.png", "Invalid value for --png: no/such/x.png"),
    ("benchmark --n-envs 0", "'--n-envs': 0 is not"),
    ("benchmark --modes fast", "'--modes': 'fast' is not one of"),
    ("benchmark --seconds 31", "'--seconds': 31.0 is not"),
    ("replay sleep --output x.gif", "'--output': x.gif: give a name that ends in .html"),
    ("report run --output x.gif", "'--output': x.gif: give a name that ends in .html"),
    ("train-async --trace x.gif", "'--trace': x.gif: give a name that ends in .json"),
    ("export champion --format onnx --output x.gif", "x.gif: give a name that ends in .onnx"),
    ("export champion --format npz --output x.gif", "x.gif: give a name that ends in .npz"),
    ("export none --format npz --output x.npz", "there is no checkpoint at none"),
    ("report champion --output x.html", "champion is not a run folder", "Give the folder of a tra"),
    ("evaluate rules:act", "rules:act is no checkpoint. record scores a function."),
    ("evaluate module:function --env module:Class", "no checkpoint. record scores a function."),
    ("evaluate module:function --env Acrobot-v1", "no checkpoint. record scores a function."),
    ("train-async --init-from champion", "champion.npz is a policy file, which acts"),
]
MEANT = [
    ("train-async --lr 1", "Did you mean --learning-rate?"),
    ("train-async --red_agent mixed", "Did you mean --red-agent?"),
    ("train-async --learning-rat 1", "Did you mean --learning-rate"),
    ("train-async --red-agent Meander", "Did you mean RedMeanderAgent?"),
    ("train-async --red-agent b_line", "Did you mean B_lineAgent?"),
    ("train-async --simulator compield", "Did you mean compiled?"),
    ("train", "Did you mean train-sync or train-async"),
    ("trainasync", "Did you mean train-async?"),
    ("evalute", "Did you mean evaluate?"),
    ("evaluate champoin", "decoys. Did you mean champion"),
]
NOTHING_MEANT = [
    ("evaluate runs/robust-2", "RUN_OR_CHECKPOINT: there is no checkpoint at runs/robust-2"),
    ("replay runs/robust-2", "AGENT: there is no checkpoint at runs/robust-2"),
    ("record runs/robust-2 file.npz", "AGENT: there is no checkpoint at runs/robust-2"),
    ("train-async --teacher runs/robust-2", "--teacher: there is no checkpoint at runs/robust-2"),
    ("train-async --zzzz", "No such option '--zzzz'"),
    ("train-async --\x00", ""),
    ("train-async '--\n'", ""),
    ("train-async -", "unexpected extra argument (-)"),
]
ROWS = [
    *(*OPTIONS, *ENVIRONMENTS, *USERS_WORDS, *SEVERAL_POLICIES, *DUELS, *SEARCHES, *FILES),
    *(*TEACHERS, *OFF_POLICY, *MEANT, *NOTHING_MEANT),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_it_is_refused_in_one_line(row, tmp_path, monkeypatch):
    monkeypatch.delenv("WORKFLOW_RL_CYBORG4", raising=False)
    monkeypatch.chdir(tmp_path)
    words, *parts = row
    error = refused(call(words), *parts)
    if row in NOTHING_MEANT:
        assert "Did you mean" not in error
        assert " name" not in error
    assert [path.name for path in tmp_path.rglob("*")] in ([], ["runs"])
