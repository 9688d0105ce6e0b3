"""A classifier that is trained on reports and their sampled attributes does not beat the Bayes-optimal attacker."""

import numpy as np
import pytest
from stats import normal_bound

import gpu_rsfd
from gpu_rsfd.plan import Plan
from gpu_rsfd.privacy import report_chunks
from gpu_rsfd.privacy.chunks import Chunk
from gpu_rsfd.privacy.guesses import guesses

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

pytestmark = pytest.mark.slow
DATA = gpu_rsfd.SyntheticDataset(4000, (3, 6, 4, 2), "zipf:1.2", seed=9)


def features(protocol, epsilon, repetition):
    """Reports as 0 and 1, a column for each value; and what the attacker is after."""
    (chunk,) = report_chunks(DATA, protocol, epsilon, seed=5, repetition=repetition, users=DATA.n)
    columns = [
        y if y.ndim == 2 else np.eye(k, dtype=np.uint8)[y] for y, k in zip(chunk.values, DATA.domain, strict=True)
    ]
    return np.concatenate(columns, axis=1), chunk.sampled


def models():
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    yield LogisticRegression(max_iter=1000)
    yield RandomForestClassifier(30, min_samples_leaf=10, random_state=1)
    yield HistGradientBoostingClassifier(max_iter=20, random_state=1)


@pytest.mark.parametrize(
    "protocol,epsilon", [("rsfd-oue-z", 2.0), ("rsfd-grr", 3.0), ("rsfd-adp", 1.0), ("rsfd-sue-r", 4.0)]
)
def test_no_classifier_beats_it(protocol, epsilon):
    train = [features(protocol, epsilon, r) for r in (1, 2)]
    x, t = np.concatenate([a for a, _ in train]), np.concatenate([b for _, b in train])
    test, sampled = features(protocol, epsilon, 0)
    plan = Plan.of(DATA.domain, [protocol], [epsilon])
    marginals = [DATA.frequencies[s] for s in DATA.domain.slices]
    chunk = Chunk(DATA.column, DATA.domain, DATA.n, 5, 0, "uniform", 0, DATA.n)
    ((_, _, guess, _),) = guesses(plan, chunk, lambda j, r: marginals[j])
    ours = guess == sampled
    trained = []
    for model in models():
        theirs = model.fit(x, t).predict(test) == sampled
        differ = np.count_nonzero(ours != theirs)
        bound = normal_bound(1) * np.sqrt(max(differ, 1))
        assert theirs.sum() - ours.sum() < bound, f"{model}: {theirs.mean():.4f}, ours {ours.mean():.4f}"
        trained.append(theirs.mean())
    assert max(trained) > 0.9 * ours.mean(), "the classifiers learnt nothing: this is no test"
