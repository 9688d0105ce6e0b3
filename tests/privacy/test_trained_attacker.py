"""Classifiers that are trained on reports, against the attacker who knows the marginals.

None beats it at the sampled attribute, whatever the correlation, nor at values where attributes are independent.  Where
they are correlated, a classifier that sees the whole report guesses more values.
"""

import numpy as np
import pytest
from stats import normal_bound

import gpu_rsfd
from gpu_rsfd.measure.guesses import guesses
from gpu_rsfd.measure.reports import Chunk, report_chunks
from gpu_rsfd.planning import Plan

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

pytestmark = pytest.mark.slow
DATA = gpu_rsfd.SyntheticDataset(4000, (3, 6, 4, 2), "zipf:1.2", seed=9)


def same(users):
    """Three identical attributes with frequencies .4, .3, .2, .1."""
    column = np.random.default_rng(4).permutation(np.repeat(np.arange(4), (np.array([4, 3, 2, 1]) * users // 10)))
    return gpu_rsfd.Dataset(np.stack([column] * 3, axis=1), (4, 4, 4), name="same")


def features(protocol, epsilon, repetition, data=DATA):
    """Reports as 0 and 1, a column for each value; and the sampled attributes."""
    (chunk,) = report_chunks(data, protocol, epsilon, seed=5, repetition=repetition, users=data.n)
    columns = []
    for j, (y, k) in enumerate(zip(chunk.values, data.domain, strict=True)):
        bits = np.zeros((data.n, k), np.uint8)  # Smp: nothing from those who sampled another attribute
        who = chunk.sampled == j if protocol.startswith("smp") else slice(None)
        bits[who] = y if y.ndim == 2 else np.eye(k, dtype=np.uint8)[y]
        columns.append(bits)
    return np.concatenate(columns, axis=1), chunk.sampled


def guessed(protocol, epsilon, data=DATA):
    """What the attacker who knows the marginals guesses in repetition 0: sampled attributes, values."""
    plan = Plan.of(data.domain, [protocol], [epsilon])
    marginals = [data.frequencies[s] for s in data.domain.slices]
    chunk = Chunk(data.column, plan, data.n, 5, 0, 0, data.n)
    ((_, _, sampled, values),) = guesses(plan, chunk, lambda j, r: marginals[j])
    return sampled, values


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
    ours = guessed(protocol, epsilon)[0] == sampled
    trained = []
    for model in models():
        theirs = model.fit(x, t).predict(test) == sampled
        differ = np.count_nonzero(ours != theirs)
        bound = normal_bound(1) * np.sqrt(max(differ, 1))
        assert theirs.sum() - ours.sum() < bound, f"{model}: {theirs.mean():.4f}, ours {ours.mean():.4f}"
        trained.append(theirs.mean())
    assert max(trained) > 0.9 * ours.mean(), "the classifiers learnt nothing: this is no test"


def test_no_classifier_finds_the_sampled_attribute_of_correlated_data():
    data = same(4000)
    x, t = features("rsfd-grr", 3.0, 1, data)
    test, sampled = features("rsfd-grr", 3.0, 0, data)
    ours = guessed("rsfd-grr", 3.0, data)[0] == sampled
    for model in list(models())[:2]:
        theirs = model.fit(x, t).predict(test) == sampled
        bound = normal_bound(1) * np.sqrt(max(np.count_nonzero(ours != theirs), 1))
        assert theirs.sum() - ours.sum() < bound, f"{model}: {theirs.mean():.4f}, ours {ours.mean():.4f}"


@pytest.mark.parametrize("protocol,ours,joint", [("smp-grr", 0.557, 0.870), ("rsfd-grr", None, None)])
def test_a_classifier_guesses_more_values_of_correlated_data(protocol, ours, joint):
    """And no more of independent ones: so `value` is what an attacker learns who knows the marginals."""
    from sklearn.linear_model import LogisticRegression

    data = same(8000)
    x, _ = features(protocol, 3.0, 1, data)
    test, _ = features(protocol, 3.0, 0, data)
    held = data.column(0, 0, data.n)
    theirs = (LogisticRegression(max_iter=1000).fit(x, held).predict(test) == held).mean()  # all three are the same
    mine = np.mean([guess == held for guess in guessed(protocol, 3.0, data)[1]])
    assert theirs > mine + 0.05
    if ours is not None:
        assert mine == pytest.approx(ours, abs=0.01)
        assert theirs == pytest.approx(joint, abs=0.02)


@pytest.mark.parametrize("protocol", ["smp-grr", "rsfd-grr"])
def test_no_classifier_guesses_more_values_of_independent_data(protocol):
    x, _ = features(protocol, 3.0, 1)
    test, _ = features(protocol, 3.0, 0)
    values = guessed(protocol, 3.0)[1]
    for j, model in zip((0, 1), models(), strict=False):
        held = DATA.column(j, 0, DATA.n)
        ours, theirs = values[j] == held, model.fit(x, held).predict(test) == held
        bound = normal_bound(1) * np.sqrt(max(np.count_nonzero(ours != theirs), 1))
        assert theirs.sum() - ours.sum() < bound, f"{model}: {theirs.mean():.4f}, ours {ours.mean():.4f}"
