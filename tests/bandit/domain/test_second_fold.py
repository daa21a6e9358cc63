"""Fold random cells a second time, in plain Python that shares nothing with the first, and demand the same sums."""

import random
from datetime import timedelta

from kedge_bandit.domain.posterior import Cell, EvidenceRow, KnownChange, fold

HALF_LIFE_SECONDS = 1_209_600.0


def second_fold(
    rows: list[EvidenceRow], changes: list[KnownChange], as_of: float
) -> dict[tuple[str, str, str], list[float]]:
    """Sort by version, let later ones overwrite, then add up: no helper, no array, no fsum."""
    by_episode: dict[str, EvidenceRow] = {}
    for row in sorted(rows, key=lambda row: row.reward_version):
        by_episode[row.policy + "/" + row.episode_id] = row
    sums: dict[tuple[str, str, str], list[float]] = {}
    for row in by_episode.values():
        weight = row.weight * 0.5 ** ((as_of - row.policy_time) / HALF_LIFE_SECONDS)
        for change in changes:
            same = (change.cell.policy, change.cell.bucket, change.cell.action) == (row.policy, row.bucket, row.action)
            if same and row.policy_time < change.policy_time:
                weight = weight * change.factor
        total = sums.setdefault((row.policy, row.bucket, row.action), [0.0, 0.0, 0.0])
        total[0] += weight
        total[1] += weight * row.reward
        total[2] += weight * row.reward**2
    return sums


def random_log(rng: random.Random, as_of: float) -> list[EvidenceRow]:
    """Ten policies by five buckets by four actions; corrections, duplicates, any order, a year of ages."""
    log: list[EvidenceRow] = []
    for number in range(6_000):
        policy, bucket, action = f"p{rng.randrange(10)}", f"b{rng.randrange(5)}", f"a{rng.randrange(4)}"
        moment = as_of - rng.choice([rng.uniform(-5.0, 60.0), rng.uniform(0.0, 4e6), rng.uniform(0.0, 3e7)])
        log += [
            EvidenceRow(
                policy=policy,
                bucket=bucket,
                action=action,
                episode_id=f"e{number}",
                reward_version=version,
                policy_time=moment,
                weight=float(rng.random() < 0.9),
                reward=rng.choice([0.0, 1.0, rng.random()]),
            )
            for version in range(1, rng.choice([1, 1, 1, 2, 3]) + 1)
        ]
    log += rng.choices(log, k=1_000)
    rng.shuffle(log)
    return log


def test_two_hundred_random_cells_agree_with_a_fold_in_plain_python() -> None:
    rng, as_of = random.Random(4), 1.75e9
    log = random_log(rng, as_of)
    cells = sorted({row.cell for row in log})
    changes = [KnownChange(cell=cell, policy_time=as_of - rng.uniform(0.0, 4e6), factor=rng.random()) for cell in cells]

    first = fold(log, as_of=as_of, half_life=timedelta(seconds=HALF_LIFE_SECONDS), changes=changes)
    second = second_fold(log, changes, as_of)

    assert len(first) == len(second) == 200
    for key, (n, s, s2) in second.items():
        evidence = first[Cell(*key)]
        assert max(abs(evidence.n - n), abs(evidence.s - s), abs(evidence.s2 - s2)) <= 1e-9 * max(1.0, n)
