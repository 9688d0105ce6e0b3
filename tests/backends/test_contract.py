"""One contract for every backend: the same cases and the same assertions, integers equal to the literal reports."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import native_builds
import numpy as np
import pytest
from cuda_standin import needs_compiler
from doc_tables import tables
from literal_attack import given_fake, given_value

import gpu_rsfd
from gpu_rsfd import Dataset, SyntheticDataset, contract
from gpu_rsfd.backends import host_backend, open_backend
from gpu_rsfd.backends.base import known_noises
from gpu_rsfd.backends.exact.samplers import SAMPLERS
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import (
    REGISTRY,
    Bits,
    Keep,
    PrivacySettings,
    Protocol,
    Sets,
    Subsets,
    Unsampled,
    mechanisms,
    registry,
)
from gpu_rsfd.protocols.adaptive import Variant
from gpu_rsfd.protocols.budgets import AMPLIFIED
from gpu_rsfd.protocols.form import Chain, UnknownNoise
from gpu_rsfd.protocols.noise import GRR, OUE, SUE, NoiseRule

# users, domain sizes, epsilon: every shape with an edge (tails of 64, sizes around powers of two, d = 1)
SHAPES = [
    (1, (2,), 1.0),
    (63, (3, 2), 0.3),
    (129, (33, 2, 3, 7), 1.0),
    *(
        pytest.param(*shape, marks=pytest.mark.slow)
        for shape in [(64, (31, 2, 5), math.log(2)), (65, (32, 4), 3.0), (200, (63, 64, 65), math.log(7))]
    ),
]
PRIORED = ("prior-grr", "prior-oue", "prior-sue")  # made-up protocols: fakes that follow a prior


@pytest.fixture
def priored(monkeypatch):
    """Protocols whose fakes have a distribution of their own, entered like any other: one entry each."""
    for name, noise in zip(PRIORED, (GRR, OUE, SUE), strict=True):
        entry = Protocol(name, name, AMPLIFIED, (Variant(noise, Unsampled.FAKE, prior=True),), "A test.")
        monkeypatch.setitem(registry.REGISTRY, name, entry)
    registry._mechanism.cache_clear()
    yield PRIORED
    registry._mechanism.cache_clear()


def reference():
    from gpu_rsfd.backends.reference import ReferenceBackend

    return ReferenceBackend()


def numpy():
    from gpu_rsfd.backends.cpu.backend import NumpyBackend

    return NumpyBackend(workers=1)


def native():
    from gpu_rsfd.backends.native.backend import NativeBackend

    return NativeBackend(workers=2)


def cupy():
    from gpu_rsfd.backends.cuda.backend import CupyBackend

    return CupyBackend()


@pytest.fixture(
    params=[
        "reference",
        "numpy",
        pytest.param("native", marks=native_builds.needs_compiler),
        pytest.param("cupy", marks=needs_compiler),
    ]
)
def backend(request):
    if request.param == "cupy":
        request.getfixturevalue("standin")
    with globals()[request.param]() as opened:
        yield opened


def counted(backend, plan, data, seed, repetitions):
    counts, sampled = backend.count(plan, data, seed, repetitions)
    return plan.expand(counts), plan.reporters(data.n, sampled)


def known_to(backend):
    """Protocols of which a backend knows every noise; the others are refused by it."""
    return [p for p, entry in REGISTRY.items() if backend.noises.issuperset(w.noise.form for w in entry.variants)]


def check(backend, plan, data, repetitions=range(3, 4), seed=77):
    ours, right = (counted(b, plan, data, seed, repetitions) for b in (backend, reference()))
    assert np.array_equal(ours[0], right[0]), np.argwhere(ours[0] != right[0])[:3]
    assert np.array_equal(ours[1], right[1])


@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("n,domain,epsilon", SHAPES)
def test_counts_are_those_of_the_literal_reports(backend, n, domain, epsilon, assignment):
    data = SyntheticDataset(n, domain, "zipf:1.1", seed=n)
    check(backend, Plan.of(domain, known_to(backend), [epsilon], assignment), data)


def skewed(k):
    """Thresholds of a prior that grows with the value; the first one of three or more never comes."""
    weights = np.arange(k) if k > 2 else np.array([1, 3])
    return tuple(int(t) for t in np.cumsum(weights)[:-1] * 2**32 // weights.sum())


@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("n,domain,epsilon", SHAPES)
def test_priors_are_the_same_everywhere(backend, priored, n, domain, epsilon, assignment):
    data = SyntheticDataset(n, domain, "zipf:1.1", seed=n)
    priors = tuple(None if j == 1 else skewed(k) for j, k in enumerate(domain))
    plan = Plan.of(
        domain, (*priored, "rsfd-grr", "spl-grr", "rsfd-oue-r"), [epsilon], assignment, PrivacySettings(priors=priors)
    )
    check(backend, plan, data)


def test_an_attribute_without_a_prior_is_plain_rsfd(backend, priored):
    data = SyntheticDataset(300, (5, 4), seed=1)
    plan = Plan.of(data.domain, ("rsfd-grr", "prior-grr", "rsfd-oue-r", "prior-oue"), [1.0])
    counts, _ = counted(backend, plan, data, 4, range(2))
    assert np.array_equal(counts[0], counts[1])
    assert np.array_equal(counts[2], counts[3])


def test_who_reports(backend):
    data = Dataset(np.zeros((100, 3), int), (2, 3, 4))
    plan = Plan.of(data.domain, ("spl-grr", "smp-oue", "rsfd-oue-z"), [1.0])
    counts, reporters = counted(backend, plan, data, 1, range(2))
    assert counts.shape == (3, 1, 2, 9)
    assert (reporters[[0, 2]] == 100).all()
    assert (reporters[1].sum(axis=-1) == 100).all()


def test_repetitions_and_progress(backend):
    data = SyntheticDataset(130, (3, 5), seed=2)
    plan = Plan.of(data.domain, known_to(backend), [0.5, 2.0])
    done = []
    counts, sampled = backend.count(plan, data, 2**64 - 1, range(2, 9, 3), done.append)
    assert sum(done) == plan.positions(data.n) * 3
    alone, _ = backend.count(plan, data, 2**64 - 1, range(5, 6))
    assert all(np.array_equal(a[:, 1:2], b) for a, b in zip(counts, alone, strict=True))
    assert [c.shape for c in counts] == [(len(a.recipes), 3, a.k) for a in plan.attributes]
    assert sampled.shape == (3, 2)


def test_the_docs_say_which_backend_knows_which_noise():
    """One table; and `auto` takes the first backend that knows every noise, and says why."""
    text = tables.forms()
    forms = {form.__name__: form for form in (Keep, Sets, Bits, Subsets)}
    known = known_noises()
    for name, form in forms.items():
        rules = dict.fromkeys(w.noise.name for e in REGISTRY.values() for w in e.variants if w.noise.form is form)
        cells = ["yes" if form in noises else "no" for noises in known.values()]
        assert f"| {name} | {', '.join(f'`{rule}`' for rule in rules)} | {' | '.join(cells)} |" in text
    assert f"| form | noises | {' | '.join(known)} |" in text
    assert known["numpy"] | {Chain} == known["sampler counts"] == known["sampler marginals"] == {*forms.values(), Chain}


@needs_compiler
def test_auto_falls_back_to_a_backend_that_knows_every_noise(standin):
    standin._reset()
    with open_backend("auto", noises={Keep, Sets})[0] as engine:
        assert engine.name == "cupy"
    engine, why = open_backend("auto", noises={Keep, Subsets})
    assert engine.name == "cupy and numpy"
    assert why == "cupy and numpy, since 1 CUDA device can be used and cupy does not know the noise Subsets"
    engine, why = open_backend("auto", noises={Subsets})
    assert (engine.name, why) == ("numpy", "numpy, since native does not know the noise Subsets")
    data = SyntheticDataset(100, (3, 4), seed=1)
    result = gpu_rsfd.simulate(data, protocols=["smp-ss", "smp-grr"], epsilons=1.0, repetitions=2)
    assert result.counts[1].sum() == 200
    with pytest.raises(gpu_rsfd.InputError, match=r"the cupy backend .*Subsets.*; known to numpy, sampler counts, sam"):
        gpu_rsfd.simulate(data, protocols=["smp-ss"], epsilons=1.0, repetitions=2, backend="cupy")


@native_builds.needs_compiler
def test_a_noise_that_native_does_not_know():
    data = SyntheticDataset(100, (3, 4), seed=1)
    assert host_backend()[0] == "native"
    assert host_backend({Subsets}) == ("numpy", "native does not know the noise Subsets")
    with pytest.raises(
        gpu_rsfd.InputError, match=r"the native backend .*Subsets.*; known to numpy, sampler counts, sa"
    ):
        gpu_rsfd.simulate(data, protocols=["spl-ss"], epsilons=1.0, repetitions=2, backend="native")


@native_builds.needs_compiler
def test_a_slow_protocol_slows_itself_alone():
    data = SyntheticDataset(700, (3, 4, 5), seed=1)
    plan = Plan.of(data.domain, ["rsfd-grr", "smp-ss", "spl-oue", "spl-ss", "smp-hr"], [0.5, 2.0])
    first, *others = plan.attributes
    known = replace(first, recipes=tuple(r for r in first.recipes if not isinstance(r.noise, Subsets)))
    subsets = replace(first, recipes=tuple(r for r in first.recipes if isinstance(r.noise, Subsets)))
    with open_backend("auto", 1, noises={Keep, Subsets})[0] as engine, open_backend("numpy", 1)[0] as right:
        assert (engine.name, engine.device) == ("native and numpy", "1 CPU thread and 1 CPU process")
        for attribute in (first, known, subsets):  # not every attribute has recipes of both
            mixed = replace(plan, attributes=(attribute, *others))
            told = []
            ours, who = engine.count(mixed, data, 3, range(2, 7), told.append)
            theirs, sampled = right.count(mixed, data, 3, range(2, 7))
            assert all(np.array_equal(a, b) for a, b in zip([*ours, who], [*theirs, sampled], strict=True))
            assert sum(told) == plan.positions(data.n) * 5


@dataclass(frozen=True)
class MadeUpValues:
    """A noise that nothing knows, with all that a noise must say of itself."""

    number: int

    kind: ClassVar[str] = "made-up"
    unary: ClassVar[bool] = False
    informative: ClassVar[bool] = True
    shared_address: ClassVar[None] = None

    @property
    def integers(self):
        return (self.number,)

    @property
    def address(self):
        return (self.number,)

    def p(self, k):
        return 0.6

    def q(self, k):
        return 0.2

    def fakes(self, k):
        return 1 / k


class MadeUpBits(MadeUpValues):
    unary = True


MADE_UP = [
    pytest.param(form, others, id=f"{form.__name__}-{others.value}")
    for form in (MadeUpValues, MadeUpBits, UnknownNoise)
    for others in Unsampled
]


def made_up(form, others):
    """A protocol with such a noise."""
    noise = UnknownNoise("MadeUp", (7,)) if form is UnknownNoise else form(7)
    rule = NoiseRule("made-up", form, lambda e, k: (0.6, 0.2), lambda e, k: noise, lambda e, k: k, "", "", "")
    return Protocol("made-up", "Made up", AMPLIFIED, (Variant(rule, others),), "A test.")


def never_zeros():
    return pytest.raises(gpu_rsfd.InputError, match=r"noise.*MadeUp")


@pytest.mark.parametrize("form,others", MADE_UP)
def test_a_noise_that_a_backend_does_not_know_is_an_error(backend, form, others):
    data = SyntheticDataset(100, (3, 4), seed=1)
    plan = Plan.of(data.domain, ["rsfd-grr", made_up(form, others)], [1.0])
    with never_zeros():
        backend.count(plan, data, 0, range(2))


@pytest.mark.parametrize("form,others", MADE_UP)
def test_a_noise_that_nothing_knows_is_an_error_everywhere(form, others):
    data, protocol = SyntheticDataset(100, (3, 4), seed=1), made_up(form, others)
    plan = Plan.of(data.domain, ["rsfd-grr", protocol], [1.0])
    for sampler in SAMPLERS.values():
        with never_zeros(), sampler(workers=1) as engine:
            engine.count(plan, data, 0, range(2))
    for sampler in ("users", *SAMPLERS):
        with never_zeros():
            gpu_rsfd.simulate(data, protocols=[protocol], epsilons=1.0, repetitions=2, sampler=sampler, workers=1)
    for knowledge in ("true", "estimated"):
        with never_zeros():
            gpu_rsfd.attack(data, protocols=[protocol], epsilons=1.0, repetitions=1, knowledge=knowledge, workers=1)
    with never_zeros():
        gpu_rsfd.reports(data, protocol, 1.0)
    with never_zeros():
        list(gpu_rsfd.report_chunks(data, protocol, 1.0))
    ms = mechanisms(protocol, 1.0, data.domain)
    for given in (given_value, given_fake):
        with never_zeros():
            given(ms[0], 1)
    with never_zeros():
        contract.enumerated(ms)
    if others.hides:
        with never_zeros():
            gpu_rsfd.privacy_loss(protocol, 1.0, data.domain)
