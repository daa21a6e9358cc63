"""Read an exported log by the programs it is for: Vowpal Wabbit learns from its text, SNIPS from its arrays.

The log is that of Thompson sampling with a floor over two buckets whose best actions differ. Needs the packages of
requirements/bench.lock, which `make bench` installs.
"""

from io import BytesIO

import numpy as np
import vowpalwabbit

from kedge.bandit.v1 import decision_pb2
from kedge_bandit.domain.allocation import allocate
from kedge_bandit.domain.best_arm import probability_best
from kedge_bandit.domain.off_policy import snips
from kedge_bandit.entrypoints.log_formats import LoggedRow, vw_lines, write_open_bandit
from tests.bench.figures import SHOWN, Bar, Report, Row, Setting

SEED = 20261201
TURNS, EVERY, FLOOR, SLICE = 6_000, 20, 0.3, 0.2
KEYS = ("small@0a|plain@1b", "large@2c|plain@1b", "large@2c|cot steps@3d")
MEANS = {"task=math": (0.5, 0.6, 0.8), "task=code: new": (0.5, 0.75, 0.4)}
VW_OPTIONS = "--cb_explore_adf --cb_type mtr --epsilon 0.1 --interactions ca --quiet --random_seed 1"
EXACT, ALL, NONE = Bar(at_most=1e-9), Bar(at_least=1.0, at_most=1.0), Bar(at_most=0.0)


def exports(setting: Setting) -> Report:
    """Write a log in both forms and read it back by others."""
    rows = logged()
    setting.say(f"{len(rows)} rows")
    return Report(rows=[*_vowpal(rows), *_open_bandit(rows)], controls=[], notes=[VW_OPTIONS], seeds=[SEED])


def logged() -> list[LoggedRow]:
    """Play both buckets in turns."""
    rng = np.random.default_rng(SEED)
    rows: list[LoggedRow] = []
    sums = {bucket: (np.zeros(3), np.zeros(3)) for bucket in MEANS}
    for _ in range(TURNS // EVERY // len(MEANS)):
        for bucket, means in MEANS.items():
            won, pulls = sums[bucket]
            q = probability_best(1.0 + won, 1.0 + pulls - won)
            p = allocate(q, subset=[True] * 3, baseline=0, floor=FLOOR, uniform_slice=SLICE)
            for action in rng.choice(3, size=EVERY, p=p / p.sum()):
                reward = float(rng.random() < means[action])
                won[action] += reward
                pulls[action] += 1
                feature, _, value = bucket.partition("=")
                context = decision_pb2.Context(categories={feature: value})
                rows.append(
                    LoggedRow(
                        bucket=bucket,
                        context=context,
                        actions=KEYS,
                        action=KEYS[action],
                        propensity=float(p[action]),
                        reward=reward,
                    )
                )
    return rows


def _vowpal(rows: list[LoggedRow]) -> list[Row]:
    """Let Vowpal Wabbit read labels and learn; then ask it what it would serve."""
    model = vowpalwabbit.Workspace(VW_OPTIONS)
    off, unread = 0.0, 0
    for row in rows:
        examples = model.parse(vw_lines(row).rstrip("\n").split("\n"))
        labels = [example.get_label(vowpalwabbit.LabelType.CONTEXTUAL_BANDIT) for example in examples[1:]]
        found = [(place, cost) for place, label in enumerate(labels) for cost in label.costs]
        unread += len(found) != 1 or found[0][0] != KEYS.index(row.action)
        off = max(off, *(abs(cost.probability - row.propensity) for _, cost in found))
        off = max(off, *(abs(cost.cost - (1.0 - row.reward)) for _, cost in found))
        model.learn(examples)
        model.finish_example(examples)
    right = 0
    for bucket, means in MEANS.items():
        example = next(row for row in rows if row.bucket == bucket)
        lines = [line.partition(" ")[2] if line.startswith("0:") else line for line in vw_lines(example).split("\n")]
        shares = model.predict([line for line in lines if line])
        right += int(np.argmax(shares)) == int(np.argmax(means))
    model.finish()
    return [
        Row(name="rows that Vowpal Wabbit reads otherwise", value=float(unread), bar=NONE),
        Row(name="largest error of cost or probability, in float32", value=off, bar=Bar(at_most=1e-6)),
        Row(name="buckets whose best action it learns from the log", value=right / len(MEANS), bar=ALL),
    ]


def _open_bandit(rows: list[LoggedRow]) -> list[Row]:
    """Value each action from the arrays as Open Bandit's estimators do, and by ours."""
    file = BytesIO()
    write_open_bandit(rows, file)
    file.seek(0)
    with np.load(file) as told:
        wrong = 0.0
        for action in range(int(told["n_actions"])):
            weights = (told["action"] == action) / told["pscore"]
            theirs = float(np.average(told["reward"], weights=weights))
            drawn = np.array([row.action == str(told["action_keys"][action]) for row in rows])
            ours = snips(drawn / np.array([row.propensity for row in rows]), np.array([row.reward for row in rows]))
            wrong = max(wrong, abs(theirs - ours.value))
        shapes = told["context"].shape == (len(rows), len(MEANS)) and told["position"].shape == (len(rows),)
    return [
        Row(name="largest difference of SNIPS between the arrays and ours", value=wrong, bar=EXACT),
        Row(name="arrays have Open Bandit's shapes", value=float(shapes), bar=ALL),
        Row(name="rows", value=float(len(rows)), bar=SHOWN),
    ]
