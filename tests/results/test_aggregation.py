"""Reports that others collected: estimates, intervals, and what can't be used."""

import json
import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from peer import CLIENTS, DOMAIN, EPSILON, collected

import gpu_rsfd
from gpu_rsfd.errors import InputError
from gpu_rsfd.results import aggregate as aggregation
from gpu_rsfd.results.aggregate import held, intervals

STORED = json.loads(Path(__file__).with_name("peer.json").read_text())
DATA = gpu_rsfd.SyntheticDataset(500, (3, 5, 2), "zipf:1", seed=3)


def lists(sent, smp):
    """The reports user by user, as a client would send them."""
    rows = [{} for _ in sent.sampled]
    for j, (values, users) in enumerate(zip(sent.values, sent.users, strict=True)):
        for i, value in zip(users.tolist(), values.tolist(), strict=True):
            rows[i][j] = value
    return [next(iter(row.items())) if smp else [row[j] for j in range(len(row))] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", gpu_rsfd.PROTOCOLS)
def test_every_form_gives_the_counts_of_a_simulation(protocol):
    result = gpu_rsfd.simulate(DATA, protocols=protocol, epsilons=1.5, repetitions=1, seed=4)
    sent = gpu_rsfd.reports(DATA, protocol, 1.5, seed=4)
    chunks = gpu_rsfd.report_chunks(DATA, protocol, 1.5, seed=4, users=128)
    for reports in (sent, chunks, lists(sent, protocol.startswith("smp"))):
        found = gpu_rsfd.aggregate(reports, protocol, 1.5, DATA.domain)
        assert (found.n, found.bad) == (DATA.n, {})
        assert np.array_equal(found.counts, result.counts[0, 0, 0])
        assert np.array_equal(found.reporters, result.reporters[0, 0, 0])
        assert np.allclose(found.estimates, result.estimates()[0, 0, 0], rtol=0, atol=1e-12)
        assert np.array_equal(found.postprocessed("simplex"), result.estimates("simplex")[0, 0, 0])
    for how in ("mle", "mle-apx"):  # with all that they need to know of the protocol
        reason = next(iter(result.undefined(how).values()), "")
        if reason:
            with pytest.raises(gpu_rsfd.InputError, match=f"{how} is not defined for {protocol}: {reason}"):
                found.postprocessed(how)
        else:
            assert np.allclose(found.postprocessed(how), result.estimates(how)[0, 0, 0], rtol=0, atol=1e-9)
    near = result.estimates("power-ns")[0, 0, 0]  # the variance follows from the reports that came
    assert np.allclose(found.postprocessed("PowerNS"), near, rtol=0, atol=0.02)


@pytest.mark.parametrize("protocol", CLIENTS)
def test_multi_freq_ldpy(protocol):
    """Reports that its clients made, and what its own aggregators estimate from them; thresholds round p and q."""
    found = gpu_rsfd.aggregate(STORED[protocol]["reports"], protocol, EPSILON, DOMAIN)
    theirs = np.concatenate(STORED[protocol]["theirs"])
    assert np.allclose(found.postprocessed("clip-normalize"), theirs, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", CLIENTS)
@pytest.mark.filterwarnings("ignore")
def test_multi_freq_ldpy_as_it_is_installed(protocol):
    pytest.importorskip("multi_freq_ldpy", reason="of the extra bench; its reports of peer.json were read all the same")
    sent, theirs = collected(protocol)
    found = gpu_rsfd.aggregate(sent, protocol, EPSILON, DOMAIN)
    assert np.allclose(found.postprocessed("clip-normalize"), np.concatenate(theirs), rtol=0, atol=1e-6)


def bits(*ones):
    return [[int(v in ones) for v in range(k)] for k in (3, 5, 2)]


@pytest.mark.parametrize(
    "protocol", ["spl-grr", "smp-grr", "rsfd-grr", "smp-pgr", "spl-hr", "spl-oue", "rsfd-sue-z", "spl-ss"]
)
@pytest.mark.parametrize("kind", ["u1", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("i4", "f8"))])
def test_an_array_gives_what_its_rows_give(protocol, kind, monkeypatch):
    """Read by columns: the same counts and texts, whatever is wrong with some rows, and across slices."""
    monkeypatch.setattr(aggregation, "CELLS", 1_000)
    data, rng = gpu_rsfd.SyntheticDataset(1_500, (4, 4, 4), "zipf:1", seed=3), np.random.default_rng(5)
    array = np.array(lists(gpu_rsfd.reports(data, protocol, 2.0), protocol.startswith("smp"))).astype(kind)
    used = set()

    def read(reports):
        try:
            found = gpu_rsfd.aggregate(reports, protocol, 2.0, data.domain, bad="count")
            used.add(found.n)
            return found.n, found.bad, found.counts.tolist(), found.reporters.tolist()
        except InputError as error:
            return str(error)

    def refused(reports):
        with pytest.raises(InputError) as error:
            gpu_rsfd.aggregate(reports, protocol, 2.0, data.domain)
        return str(error.value)

    for bad in (0, 1, 40):
        spoilt = array.copy()
        spoilt.reshape(-1)[rng.choice(array.size, bad, replace=False)] = 250
        for some in (spoilt, spoilt[..., :-1], spoilt[0]):
            assert read(some) == read(list(some))  # a list of rows is read row by row
        if bad:
            assert refused(spoilt) == refused(list(spoilt))
    assert bool(used) == (kind != "f8" or protocol in ("spl-oue", "rsfd-sue-z", "spl-ss"))


BAD = [
    ("rsfd-grr", [0, 1, 2], "outside the domain", "attribute 'A3' holds 2; valid: 0 … 1"),
    ("rsfd-grr", [0, -1, 1], "outside the domain", "attribute 'A2' holds -1; valid: 0 … 4"),
    ("rsfd-grr", [0, 1], "wrong shape", "it has 2 entries, but there are 3 attributes"),
    ("rsfd-grr", [0, 1.0, 1], "wrong shape", "attribute 'A2' holds 1.0, not a value 0 … 4"),
    ("rsfd-grr", [0, "1", 1], "wrong shape", "attribute 'A2' holds '1', not a value 0 … 4"),
    ("rsfd-grr", [0, None, 1], "wrong shape", "attribute 'A2' holds None, not a value 0 … 4"),
    ("rsfd-grr", [0, 2**70, 1], "wrong shape", "attribute 'A2' holds 1180591620717411303424, not a value 0 … 4"),
    ("rsfd-grr", None, "wrong shape", "it is None, not a list"),
    ("rsfd-grr", "011", "wrong shape", "it is '011', not a list"),
    ("spl-oue", [*bits()[:2], [0, 1, 0]], "wrong shape", "attribute 'A3' holds [0, 1, 0], not 2 bits"),
    ("spl-oue", [[0, 0, 2], *bits()[1:]], "outside the domain", "attribute 'A1' holds [0, 0, 2]; valid: bits 0 and 1"),
    ("spl-oue", [[0, 0, 0.5], *bits()[1:]], "outside the domain", "attribute 'A1' holds [0, 0, 0.5]; valid: bits"),
    ("spl-oue", [1, 2, 0], "wrong shape", "attribute 'A1' holds 1, not 3 bits"),
    ("smp-grr", (3, 0), "wrong shape", "it is (3, 0), not a pair of an attribute 0 … 2 and what is sent for it"),
    ("smp-grr", (True, 0), "wrong shape", "it is (True, 0), not a pair of an attribute"),
    ("smp-grr", (0, [1, 0, 0]), "wrong shape", "attribute 'A1' holds [1, 0, 0], not a value 0 … 2"),
    ("smp-oue", (0, 1), "wrong shape", "attribute 'A1' holds 1, not 3 bits"),
    ("smp-pgr", (0, 10**6), "outside the domain", "attribute 'A1' holds 1000000; valid: 0 … "),
    ("smp-ss", (1, [1, 1, 0, 0, 0]), "outside the domain", "holds [1, 1, 0, 0, 0]; valid: 1 different values, or bits"),
    ("spl-ss", [[3], [0, 1], [0]], "outside the domain", "attribute 'A1' holds [3]; valid: 1 different values"),
    ("spl-ss", [[0], [1, 1], [0]], "outside the domain", "attribute 'A2' holds [1, 1]; valid: 2 different values"),
]  # fmt: skip


@pytest.mark.parametrize("protocol,report,kind,why", BAD)
def test_bad_reports_are_refused_or_counted(protocol, report, kind, why):
    good = lists(gpu_rsfd.reports(DATA, protocol, 2.0), protocol.startswith("smp"))
    mixed = [*good[:7], report, *good[7:]]
    with pytest.raises(InputError) as refused:
        gpu_rsfd.aggregate(mixed, protocol, 2.0, DATA.domain)
    assert str(refused.value).startswith("1 of 501 reports can't be used, the first is reports[7]: ")
    assert why in str(refused.value)
    found = gpu_rsfd.aggregate(mixed, protocol, 2.0, DATA.domain, bad="count")
    assert (found.n, found.bad) == (500, {kind: 1})
    assert np.array_equal(found.counts, gpu_rsfd.aggregate(good, protocol, 2.0, DATA.domain).counts)
    assert repr(found).startswith(f"Aggregate(500 reports of {protocol}, epsilon=2, guarantee=paper, d=3, 1 left out; ")


def test_bad_reports_of_our_own_format():
    sent = gpu_rsfd.reports(DATA, "rsfd-grr", 2.0)
    sent.values[1][:3] = 9
    with pytest.raises(InputError, match=r"3 of 500 reports .* reports\[0\]: attribute 'A2' holds 9; valid: 0 … 4"):
        gpu_rsfd.aggregate(sent, "rsfd-grr", 2.0, DATA.domain)
    assert gpu_rsfd.aggregate(sent, "rsfd-grr", 2.0, DATA.domain, bad="count").n == 497
    with pytest.raises(InputError, match="made by another protocol, epsilon, domain or guarantee"):
        gpu_rsfd.aggregate(sent, "rsfd-grr", 1.0, DATA.domain)


@pytest.mark.parametrize("arguments,why", [
    ({"reports": []}, "there are no reports"),
    ({"reports": "01"}, "reports is of type str"),
    ({"reports": 3}, "reports is of type int"),
    ({"reports": [None], "bad": "count"}, "none of 1 reports can be used"),
    ({"against": "everybody"}, "against='everybody' is unknown; available: users, population"),
    ({"bad": "drop"}, "bad='drop' is unknown; available: refuse, count"),
    ({"level": 95}, "level=95 must be above 0 and below 1"),
    ({"names": ["a"]}, "names has 1 entries, but there are 3 attributes"),
    ({"protocol": "nope"}, "nope"),
    ({"guarantee": "central"}, "unknown guarantee 'central'; available: paper, user, attribute"),
])  # fmt: skip
def test_bad_arguments(arguments, why):
    given = {"reports": [[0, 0, 0]], "protocol": "rsfd-grr", "epsilon": 1.0, "domain": DATA.domain, **arguments}
    with pytest.raises(InputError, match=why):
        gpu_rsfd.aggregate(**given)


@pytest.mark.parametrize("protocol", ["spl-oue", "rsfd-sue-z", "rsfd-oue-r", "smp-olh"])
def test_bits_of_another_epsilon_are_refused(protocol):
    """How many bits are set tells, whatever users hold; the right epsilon passes (the tests above)."""
    sent = lists(gpu_rsfd.reports(DATA, protocol, 3.0), protocol.startswith("smp"))
    with pytest.raises(InputError, match=r"bits set on average, but .* were they made with another protocol"):
        gpu_rsfd.aggregate(sent, protocol, 1.0, DATA.domain)


def test_a_pilot_is_aggregated_under_the_guarantee_that_it_was_decided_under():
    """As `simulate` runs it; under the paper's budgets, the negative control, the estimates are biased."""
    data = gpu_rsfd.SyntheticDataset(20_000, (3, 5, 2), "zipf:1", seed=3)
    what, user = ("rsfd-grr", 1.0), {"guarantee": "user"}
    (row,) = gpu_rsfd.plan(data, protocols="rsfd-grr", epsilons=1.0, attack=False)
    assert row.loss_all == pytest.approx(1.0, abs=1e-6)  # what plan assumes
    counts = gpu_rsfd.simulate(data, protocols="rsfd-grr", epsilons=1.0, repetitions=1, **user).counts
    sent = lists(next(gpu_rsfd.report_chunks(data, *what, users=data.n, **user)), False)
    found, wrong = (gpu_rsfd.aggregate(sent, *what, data.domain, **given) for given in (user, {}))
    assert (found.guarantee, found.counts.tolist()) == ("user", counts[0, 0, 0].tolist())
    assert np.abs((found.estimates - data.frequencies) / found.standard_errors).max() < 5.5
    assert np.abs((wrong.estimates - data.frequencies) / wrong.standard_errors).max() > 5.5
    settings = gpu_rsfd.PrivacySettings(guarantee="user")
    assert gpu_rsfd.mechanisms(*what, data.domain, **user) == gpu_rsfd.mechanisms(*what, data.domain, settings)
    few = gpu_rsfd.SyntheticDataset(50, (3, 5, 2), seed=3)
    ours = gpu_rsfd.reports(few, *what, **user)
    assert gpu_rsfd.aggregate(ours, *what, few.domain, **user).n == 50
    with pytest.raises(InputError, match="another protocol, epsilon, domain or guarantee"):
        gpu_rsfd.aggregate(ours, *what, few.domain)


def test_rows_and_names():
    labels = [["a", "b", "c"], list("vwxyz"), ["no", "yes"]]
    sent = gpu_rsfd.reports(DATA, "smp-grr", 2.0)
    found = gpu_rsfd.aggregate(sent, "smp-grr", 2.0, DATA.domain, names=["x", "y", "z"], labels=labels)
    rows = list(found.rows())
    assert [(row["attribute"], row["value"]) for row in rows[2:4]] == [("x", "c"), ("y", "v")]
    assert rows[0]["low"] < rows[0]["estimate"] < rows[0]["high"]
    assert sum(row["count"] for row in rows) == DATA.n


def test_an_attribute_that_nobody_reported():
    found = gpu_rsfd.aggregate([(0, 1), (2, 0)], "smp-grr", 2.0, DATA.domain)
    assert np.isnan(found.low[3:8]).all()
    assert np.isfinite(found.low[:3]).all()


def test_the_interval_of_a_binomial_count_is_wilsons():
    (m,), z = gpu_rsfd.mechanisms("spl-grr", 2.0, (4,)), NormalDist().inv_cdf(0.975)
    counts, n = np.array([10, 20, 30, 40]), 100
    _, _, low, high = intervals([m], counts, np.array([n]), n, "population")
    share = counts / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    assert np.allclose(m.base + m.gain * low, middle - half)
    assert np.allclose(m.base + m.gain * high, middle + half)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["rsfd-grr", "rsfd-oue-r", "spl-adp", "smp-adp"])
def test_coverage(protocol):
    """Of these users' own frequencies; with half the noise the same intervals would fail."""
    runs = 2000
    result = gpu_rsfd.simulate(DATA, protocols=protocol, epsilons=1.0, repetitions=runs, seed=5)
    ms = gpu_rsfd.mechanisms(protocol, 1.0, DATA.domain)
    inside, short = [], []
    for counts, reporters in zip(result.counts[0, 0], result.reporters[0, 0], strict=True):
        estimate, error, low, high = intervals(ms, counts, reporters, DATA.n)
        inside.append((low <= DATA.frequencies) & (DATA.frequencies <= high))
        short.append(np.abs(estimate - DATA.frequencies) <= 1.7 * error)  # 91 %: the negative control
    tolerance = 5 * math.sqrt(0.95 * 0.05 / runs) + 0.005  # of one value, and that counts are not normal
    assert np.abs(np.mean(inside, axis=0) - 0.95).max() < tolerance
    assert np.abs(np.mean(short, axis=0) - 0.95).max() > tolerance


@pytest.mark.slow
@pytest.mark.parametrize("protocol,domain,epsilon", [
    ("spl-grr", (5,), 7.6),
    ("spl-ss", (12,), 7.6),
    ("spl-oue", (12,), 9.0),
    ("spl-grr", (2, 5), 16.0),
    ("smp-grr", (2, 5), 9.0),
    ("rsfd-oue-z", (2, 5), 9.0),
    ("rsfd-grr", (2, 5), 20.0),
])  # fmt: skip
def test_coverage_at_a_large_epsilon(protocol, domain, epsilon):
    """Fewer than one wrong report is expected; an estimate +- 1.96 standard errors, the negative control, fails."""
    runs, parts = 1000, [np.arange(k, 0.0, -1) ** 2 - 1 for k in domain]
    rng = np.random.default_rng(1)
    values = np.stack([rng.choice(len(part), 300, p=part / part.sum()) for part in parts], axis=1)
    data = gpu_rsfd.Dataset(values, domain)
    result = gpu_rsfd.simulate(data, protocols=protocol, epsilons=epsilon, repetitions=runs, seed=5, sampler="counts")
    ms, covered, plain = gpu_rsfd.mechanisms(protocol, epsilon, domain), [], []
    for counts, reporters in zip(result.counts[0, 0], result.reporters[0, 0], strict=True):
        estimate, error, low, high = intervals(ms, counts, reporters, data.n)
        covered.append((low <= data.frequencies) & (data.frequencies <= high))
        plain.append(np.abs(estimate - data.frequencies) <= 1.96 * error)
        assert (low <= estimate).all()
        assert (estimate <= high).all()
    least = 0.95 - 5 * math.sqrt(0.95 * 0.05 / runs) - 0.005
    assert np.mean(covered, axis=0).min() > least
    if protocol in ("spl-grr", "spl-ss"):
        assert np.mean(plain, axis=0).min() < least


@pytest.mark.parametrize("n,holding,other", [(7, 0.9, 0.1), (12, 0.99, 0.002), (9, 0.5, 0.01), (5, 1.0, 0.0)])
def test_the_exact_interval_against_all_outcomes(n, holding, other):
    """The probability of each count, by adding up all of the holders' and the others' reports."""

    def pmf(m, rate, x):
        return math.comb(m, x) * rate**x * (1 - rate) ** (m - x)

    for count in range(n + 1):
        kept = []
        for h in range(n + 1):
            chance = [
                sum(pmf(h, holding, a) * pmf(n - h, other, c - a) for a in range(h + 1) if 0 <= c - a <= n - h)
                for c in range(n + 1)
            ]
            if min(sum(chance[count:]), sum(chance[: count + 1])) > 0.025:
                kept.append(h)
        kept = kept or [n]  # more reports than any number of holders explains
        assert held(count, n, holding, other, 0.025) == (kept[0], kept[-1])
