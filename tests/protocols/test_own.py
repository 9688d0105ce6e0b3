"""Protocols of one's own: what is accepted, what is refused and how, and what `check` finds."""

import math
from dataclasses import replace

import command
import numpy as np
import pytest
from rich.console import Console

import gpu_rsfd
from gpu_rsfd import InputError, contract
from gpu_rsfd.planning import rates_of
from gpu_rsfd.protocols import Bits, Keep, Mechanism, PrivacySettings, mechanisms
from gpu_rsfd.protocols.noise import keep_loss
from gpu_rsfd.protocols.own import load_protocols
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import page, planned, plots
from gpu_rsfd.show.rows import How
from gpu_rsfd.theory import expected_mse, needs


def oue(e, k):
    return 0.5, 1 / (math.exp(e) + 1)


def grr(e, k):
    return (math.exp(e) - 1) / (math.exp(e) + k - 1)


def define(name="mine", solution="rsfd-z", bits=oue, **given):
    return gpu_rsfd.protocol(name, solution=solution, bits=bits, **given)


COPIES = {
    "spl-oue": define("a", "spl"),
    "smp-oue": define("b", "smp"),
    "rsfd-oue-z": define("c", "rsfd-z"),
    "rsfd-oue-r": define("d", "rsfd-r"),
    "spl-grr": define("e", "spl", None, keep=grr),
    "smp-grr": define("f", "smp", None, keep=grr),
    "rsfd-grr": define("g", "rsfd-r", None, keep=grr),
    "rsfd-adp": gpu_rsfd.protocol("h", adaptive=(define("i"), define("j", "rsfd-r", None, keep=grr))),
    "smp-adp": gpu_rsfd.protocol("k", adaptive=["smp-grr", define("l", "smp")]),
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("epsilon", [0.1, math.log(3), 3.0])
def test_a_copy_has_the_integers_of_the_original(name, epsilon):
    domain = (2, 3, 11, 64, 1000)
    for guarantee in ("paper", "attribute"):
        settings = PrivacySettings(guarantee=guarantee)
        ours, theirs = (mechanisms(p, epsilon, domain, settings) for p in (COPIES[name], name))
        if guarantee == "paper" or name.startswith("rsfd"):
            assert [m.recipe for m in ours] == [m.recipe for m in theirs]
    assert gpu_rsfd.privacy_loss(COPIES[name], epsilon, domain) == pytest.approx(
        gpu_rsfd.privacy_loss(name, epsilon, domain), rel=1e-12
    )


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("guarantee", ["user", "attribute"])
def test_budgets_of_the_other_guarantees_follow_from_the_exact_loss(name, guarantee):
    loss = gpu_rsfd.privacy_loss(COPIES[name], 1.0, (2, 5, 40), guarantee)[-1 if guarantee == "user" else 0]
    assert loss <= 1.0
    assert loss > 1.0 - 1e-5  # and no smaller than it must be


def test_what_depends_on_a_budget_that_never_fits():
    stubborn = define("stubborn", "smp", lambda e, k: (0.75, 0.25))
    assert gpu_rsfd.privacy_loss(stubborn, 3.0, (4, 4), "user")[-1] == pytest.approx(2 * math.log(3), abs=1e-6)
    with pytest.raises(InputError, match="no budget keeps the user loss of stubborn within epsilon=1"):
        gpu_rsfd.privacy_loss(stubborn, 1.0, (4, 4), "user")


def test_a_budget_of_ones_own():
    half = define(budget=lambda epsilon, d: epsilon / 2)
    m = gpu_rsfd.mechanism(half, 1.0, 3, 10)
    assert (m.budget, m.recipe) == (0.5, replace(m.recipe, noise=Bits(2**23, math.ceil(2**24 / (math.exp(0.5) + 1)))))
    assert gpu_rsfd.privacy_loss(half, 1.0, (3, 3), "user")[-1] == pytest.approx(1.0, abs=1e-5)


def test_thresholds_are_never_certain_and_rounded_towards_privacy():
    almost = 1 - 2**-53
    assert gpu_rsfd.mechanism(define(bits=lambda e, k: (almost, 1e-300)), 1.0, 2, 3).recipe.noise == Bits(2**24 - 1, 1)
    kept = define("kept", "smp", None, keep=lambda e, k: almost)
    assert gpu_rsfd.mechanism(kept, 1.0, 2, 3).recipe.noise == Keep(2**32 - 1)
    m = gpu_rsfd.mechanism(define(bits=lambda e, k: (0.7, 0.1)), 1.0, 2, 3)
    assert m.p <= 0.7 < m.p + 2**-24
    assert m.q - 2**-24 < 0.1 <= m.q


def hashed(**given):
    """Local hashing into four cells."""

    def bits(e, k):
        return math.exp(e) / (math.exp(e) + 3), 0.25

    return define("hashed", "smp", bits, **{"loss": lambda e, k: e, **given})


def test_a_claimed_loss_is_marked_and_refused_where_it_would_have_to_be_known():
    m = gpu_rsfd.mechanism(hashed(), 1.0, 2, 10)
    assert (m.claimed, m.plain, m.loss) == (True, False, 1.0)
    assert gpu_rsfd.privacy_loss(hashed(), 1.0, (3, 10)).tolist() == [1.0, 1.0]
    among_fakes = define("among", "rsfd-r", lambda e, k: (0.5, 0.25), loss=lambda e, k: e)
    assert gpu_rsfd.privacy_loss(among_fakes, 1.0, (3, 10)) == pytest.approx(
        mechanisms(among_fakes, 1.0, (3, 10))[0].budget
    )
    for guarantee in ("user", "attribute"):
        with pytest.raises(InputError, match=f"guarantee='{guarantee}' can't be given for hashed: its loss is claimed"):
            gpu_rsfd.privacy_loss(hashed(), 1.0, (3, 10), guarantee)
        with pytest.raises(InputError, match="its loss is claimed"):
            gpu_rsfd.simulate(gpu_rsfd.SyntheticDataset(9, (2,)), protocols=[hashed()], guarantee=guarantee)
    assert not gpu_rsfd.mechanism(define(), 1.0, 2, 10).claimed


@pytest.mark.parametrize(
    "given,words",
    [
        ({"name": "a/b"}, "'a/b' can't be the name of a protocol; letters, digits"),
        ({"name": ""}, "'' can't be the name"),
        ({"name": "a,b"}, "'a,b' can't be the name"),
        ({"name": 3}, "3 can't be the name"),
        ({"name": "rsfd-grr"}, "'rsfd-grr' is the name of a protocol of gpu-rsfd"),
        ({"solution": "rsfd"}, "unknown solution 'rsfd'; available: spl, smp, rsfd-z, rsfd-r"),
        ({"solution": None}, "unknown solution None"),
        ({"keep": grr}, "give one of bits, keep and sets, not bits and keep"),
        ({"bits": None}, "give one of bits, keep and sets, not none"),
        ({"bits": (0.5, 0.2)}, r"bits=\(0.5, 0.2\) must be a function"),
        ({"bits": None, "keep": grr}, "keep sends a value, so fakes are values: use rsfd-r"),
        ({"bits": None, "keep": grr, "solution": "smp", "loss": grr}, "loss is for bits"),
        ({"budget": 3}, "budget=3 must be a function"),
        ({"colour": "red"}, "colour='red' must be like #1b1b1b"),
        ({"marker": "circle"}, "marker='circle' is unknown"),
        ({"marker": ""}, "marker='' is unknown"),
        ({"label": "a\nb"}, r"label='a\\nb' must be one line of text"),
        ({"label": " "}, "label=' ' must be one line"),
        ({"summary": 7}, "summary=7 must be one line"),
        ({"adaptive": ("smp-grr", "smp-oue")}, "adaptive and solution exclude each other"),
    ],
)
def test_bad_definitions(given, words):
    with pytest.raises(InputError, match=words) as error:
        gpu_rsfd.protocol(**{"name": "mine", "solution": "rsfd-z", "bits": oue, **given})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "pair,words",
    [
        ("smp-grr", "must be two protocols"),
        (("smp-grr",), "must be two protocols"),
        (("smp-grr", "smp-adp"), "adaptive='smp-adp' is adaptive itself"),
        (("smp-grr", "spl-oue"), "smp-grr and spl-oue are of different solutions"),
        (("rsfd-grr", define("w", budget=lambda epsilon, d: epsilon)), "rsfd-grr and w have different budgets"),
        (("rsfd-grr", "rsrfd-grr"), "is longitudinal or has a prior"),
        (("smp-grr", "smp-grrr"), "unknown protocol 'smp-grrr'; did you mean smp-grr"),
    ],
)
def test_bad_pairs(pair, words):
    with pytest.raises(InputError, match=words):
        gpu_rsfd.protocol("mine", adaptive=pair)


def test_a_pair_may_share_a_budget_of_its_own():
    def budget(epsilon, d):
        return epsilon / 2

    a, b = define("a", budget=budget), define("b", "rsfd-r", None, keep=grr, budget=budget)
    assert gpu_rsfd.mechanism(gpu_rsfd.protocol("c", adaptive=(a, b)), 1.0, 2, 3).budget == 0.5


def test_the_second_of_a_pair_wins_a_tie():
    a, b = define("a", "smp"), define("b", "smp")
    assert gpu_rsfd.mechanism(gpu_rsfd.protocol("c", adaptive=(a, b)), 1.0, 2, 3).name == "b"


def broken(e, k):
    return undefined  # noqa: F821


@pytest.mark.parametrize(
    "given,words",
    [
        (
            {"bits": lambda e, k: (0.2, 0.5)},
            r"bits\(e=1, k=5\) gave \(0.2, 0.5\); it must be \(p, q\) with 0 < q < p < 1",
        ),
        ({"bits": lambda e, k: (0.5, 0.5)}, r"gave \(0.5, 0.5\)"),
        ({"bits": lambda e, k: (1.0, 0.5)}, r"gave \(1.0, 0.5\)"),
        ({"bits": lambda e, k: (0.5, 0.0)}, r"gave \(0.5, 0.0\)"),
        ({"bits": lambda e, k: (math.nan, 0.1)}, r"gave \(nan, 0.1\)"),
        ({"bits": lambda e, k: (0.5, -0.1)}, r"gave \(0.5, -0.1\)"),
        ({"bits": lambda e, k: ("0.5", "0.1")}, r"gave \('0.5', '0.1'\)"),
        ({"bits": lambda e, k: 0.5}, "gave 0.5"),
        ({"bits": lambda e, k: (0.5, 0.2, 0.1)}, r"gave \(0.5, 0.2, 0.1\)"),
        ({"bits": lambda e, k: None}, "gave None"),
        ({"bits": lambda e: (0.5, 0.2)}, "raised TypeError: .*positional argument"),
        ({"bits": lambda e, k: (0.5, 1 / 0)}, r"raised ZeroDivisionError: division by zero \(test_own.py, line \d+\)"),
        ({"bits": broken}, r"protocol 'mine': bits\(e=1, k=5\) raised NameError: name 'undefined' is not defined"),
        ({"bits": None, "keep": lambda e, k: 1.0}, r"keep\(e=1, k=5\) gave 1.0; it must be a probability > 0 and < 1"),
        ({"bits": None, "keep": lambda e, k: 0}, "gave 0; it must be a probability"),
        ({"bits": None, "keep": lambda e, k: (0.5, 0.1)}, r"gave \(0.5, 0.1\)"),
        ({"budget": lambda epsilon, d: 0}, r"budget\(epsilon=1, d=4\) gave 0; it must be a finite number > 0"),
        ({"budget": lambda epsilon, d: math.inf}, "gave inf"),
        ({"budget": lambda epsilon, d: "1"}, "gave '1'"),
        ({"budget": broken}, "budget.* raised NameError"),
        ({"loss": lambda e, k: -1.0}, r"loss\(e=1, k=5\) gave -1.0"),
        ({"loss": broken}, "loss.* raised NameError"),
        ({"bits": lambda e, k: (0.5, math.exp(1000 * e))}, "epsilon=1.0 is too large for mine with d=4"),
    ],
)
def test_bad_functions(given, words):
    mine = gpu_rsfd.protocol("mine", solution="smp", **{"bits": oue, **given})
    with pytest.raises(InputError, match=words) as error:
        gpu_rsfd.mechanism(mine, 1.0, 4, 5)
    assert "\n" not in str(error.value)


def test_looks_can_be_chosen():
    chosen = define(label="Mine", colour="#123456", marker="s", summary="What it does.")
    assert (chosen.label, chosen.colour, chosen.marker, chosen.summary) == ("Mine", "#123456", "s", "What it does.")
    assert gpu_rsfd.label(chosen) == "Mine"


def test_objects_are_taken_wherever_names_are():
    mine, data = define(), gpu_rsfd.SyntheticDataset(500, (2, 3), seed=1)
    options = {"protocols": [mine, "smp-adp"], "epsilons": 1.0, "repetitions": 2}
    result = gpu_rsfd.simulate(data, **options, workers=1)
    assert result.protocols == ("mine", "smp-adp")
    assert result.look("mine").label == "mine"
    copied = gpu_rsfd.simulate(data, **{**options, "protocols": "rsfd-oue-z"}, workers=1)
    assert np.array_equal(result.counts[:1], copied.counts)
    assert np.array_equal(gpu_rsfd.simulate(data, gpu_rsfd.Spec.of(**options), workers=1).counts, result.counts)
    attacked = [gpu_rsfd.attack(data, **{**options, "protocols": p}, workers=1) for p in (mine, "rsfd-oue-z")]
    assert np.array_equal(*(a.value_success for a in attacked))
    for call in (gpu_rsfd.reports, lambda *a: next(iter(gpu_rsfd.report_chunks(*a)))):
        assert np.array_equal(*(call(data, p, 1.0).counts() for p in (mine, "rsfd-oue-z")))
    for theory in (
        lambda p: expected_mse(p, 1.0, 500, (2, 3)),
        lambda p: needs.plan_table(500, (2, 3), [1.0], [p], target_rmse=0.1)[0].users_needed,
        lambda p: needs.bits_per_user(p, 1.0, (2, 3)),
        lambda p: gpu_rsfd.privacy_loss(p, 1.0, (2, 3)).tolist(),
    ):
        assert theory(mine) == pytest.approx(theory("rsfd-oue-z"))
    ours, theirs = gpu_rsfd.plan(data, protocols=[mine, "rsfd-oue-z"], epsilons=1.0)
    assert (ours.protocol, ours._replace(protocol="")) == ("mine", theirs._replace(protocol=""))
    with pytest.raises(InputError, match="protocol 'mine' is given twice"):
        gpu_rsfd.simulate(data, protocols=[mine, define()])


# ------------------------------------------------------------------------------------------------ files

GOOD = """
import math, gpu_rsfd
from helper import half
mine = gpu_rsfd.protocol("mine", solution="smp", bits=lambda e, k: (half, 1 / (math.exp(e) + 1)))
again = mine
other = gpu_rsfd.protocol("other", adaptive=(mine, "smp-grr"))
number = 3
if __name__ == "__main__":
    raise SystemExit("run as a script")
"""


def test_protocols_of_a_file(tmp_path):
    (tmp_path / "helper.py").write_text("half = 0.5\n")
    (tmp_path / "mine.py").write_text(GOOD)
    found = load_protocols(tmp_path / "mine.py")
    assert list(found) == ["mine", "other"]
    assert gpu_rsfd.mechanism(found["mine"], 1.0, 2, 3).recipe == gpu_rsfd.mechanism("smp-oue", 1.0, 2, 3).recipe


@pytest.mark.parametrize(
    "text,words",
    [
        ("x = (\n", r"mine.py, line \d+: '\(' was never closed"),
        ("import math\n\nmath.sqrt(-1)\n", "mine.py, line 3: ValueError: math domain error"),
        ("import no_such_module\n", "mine.py, line 1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("import gpu_rsfd\ngpu_rsfd.protocol('mine', solution='x')\n", "mine.py, line 2: protocol 'mine': unknown sol"),
        ("raise SystemExit(3)\n", "mine.py, line 1: SystemExit: 3"),
        ("x = 1\n", "mine.py defines no protocol; one is made with"),
        (
            "from gpu_rsfd import protocol\na, b = [protocol('p', solution='smp', keep=min) for _ in 'ab']\n",
            "mine.py defines two protocols named 'p'",
        ),
    ],
)
def test_a_file_with_a_mistake_is_one_line(tmp_path, text, words):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match=words) as error:
        load_protocols(tmp_path / "mine.py")
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=r"nothing.py does not exist"):
        load_protocols(tmp_path / "nothing.py")


# ------------------------------------------------------------------------------------------------ check


@pytest.mark.parametrize(
    "name",
    ["rsfd-oue-z", *(pytest.param(name, marks=pytest.mark.slow) for name in COPIES if name != "rsfd-oue-z")],
)
def test_copies_pass(name):
    said = []
    gpu_rsfd.check(COPIES[name], echo=said.append)
    assert [line.split(": ")[0].strip() for line in said if "cupy" not in line and "native" not in line] == [
        *(COPIES[name].name, "reports", "reports", "estimates", "samplers", "loss"),
    ]


@pytest.mark.parametrize(
    "mine,words",
    [
        (
            define("greedy", "smp", lambda e, k: oue(2 * e, k)),
            r"greedy loses 1.386 with k=2 values at a budget of 0.6931",
        ),
        (define("greedy", "smp", None, keep=lambda e, k: grr(1.01 * e, k)), "greedy loses 0.7001"),
        (hashed(loss=lambda e, k: e / 5), "hashed claims a loss of 0.1386 .* but one bit alone loses 0.47"),
        (hashed(loss=lambda e, k: 2 * e), "hashed loses 1.386"),
        (define("broken", "smp", lambda e, k: (0.5, 0.4 if k < 1000 else 0.6)), r"gave \(0.5, 0.6\)"),
    ],
)
def test_a_protocol_that_gives_away_too_much_is_found(mine, words):
    with pytest.raises(InputError, match=words):
        gpu_rsfd.check(mine, echo=lambda line: None)


def test_a_claimed_loss_is_said_to_be_claimed():
    (line,) = contract._losses(hashed())
    assert line.startswith("loss: claimed, not computed: 1.386 at epsilon=1.386")
    rows = needs.plan_table(1000, (3, 10), [1.0], [hashed(), "smp-olh"])
    assert [row.claimed for row in rows] == [True, False]
    console = Console(width=200)
    with console.capture() as shown:
        console.print(planned._plan_table(rows, {"hashed": "hashed", "smp-olh": "Smp[OLH]"}, None))
    ours, theirs = (next(line for line in shown.get().splitlines() if name in line) for name in ("hashed", "OLH"))
    assert ours.count("1.000 claimed") == 2
    assert "claimed" not in theirs


def test_plan_says_what_claimed_means(tmp_path, monkeypatch, capsys):
    text = (
        "import gpu_rsfd\n"
        "mine = gpu_rsfd.protocol('mine', label='Own[UE]', solution='smp', bits=lambda e, k: (0.5, 0.25){loss})\n"
    )
    file = tmp_path / "mine.py"
    for loss, said in ((", loss=lambda e, k: e", True), ("", False)):
        file.write_text(text.format(loss=loss))
        options = ("--users", "1000", "--domain", "4", "--epsilon", "2", "--no-attack")
        options += ("--guarantee", "paper", "--protocol-from", str(file))
        assert command.call(monkeypatch, "plan", *options) == 0
        out = capsys.readouterr().out
        assert ("claimed: the loss that the protocol's author states" in out) == said
        assert any("●Own[UE] " in line for line in out.splitlines())  # its label, as for any other protocol


def test_figure_and_page_say_which_losses_are_not_exact():
    """A claimed one, and that of the first report of many."""
    protocols = [hashed(), "smp-olh", "smp-l-grr"]
    data = gpu_rsfd.SyntheticDataset(200, (3, 10), name="one")
    result = gpu_rsfd.simulate(data, protocols=protocols, epsilons=[1.0], repetitions=2, backend="numpy", workers=1)
    results = Results({"one": result}, spec=result.spec)
    words = "loss claimed by its author, not computed: hashed; loss of the first report alone: Smp[L-GRR]"
    (legend,) = plots.figure_of(results, How("none"), plots.LOSS).legends
    assert legend.get_title().get_text().replace("\n", " ").endswith(words)
    pytest.importorskip("vl_convert")
    notes = page.document(results, "mine")["lossNotes"]
    assert notes == dict.fromkeys([page.ONE, page.ANY], words)
    assert plots.loss_notes(result.take([1], [0])) == []


def test_a_wrong_loss_is_found(monkeypatch):
    for name in ("rsfd-oue-z", "spl-grr", "smp-oue", "rsfd-grr"):
        list(contract._losses(COPIES[name]))
    with monkeypatch.context() as patch:
        right = contract.losses
        patch.setattr(contract, "losses", lambda ms, *sizes: right(ms, *sizes) * (1 - 1e-6))
        for name in ("rsfd-oue-z", "spl-grr"):
            with pytest.raises(InputError, match=r"states a loss of .* all reports together show"):
                list(contract._losses(COPIES[name]))
    rule = COPIES["smp-oue"].variants[0]
    understated = replace(rule, noise=replace(rule.noise, loss=keep_loss, form=Keep))  # ln(p / q), too little
    with pytest.raises(InputError, match=r"states a loss of .* all reports together show"):
        list(contract._losses(replace(COPIES["smp-oue"], variants=(understated,))))


def test_a_wrong_guarantee_is_found(monkeypatch):
    real = contract.mechanisms
    monkeypatch.setattr(
        contract,
        "mechanisms",
        lambda p, e, domain, settings: real(p, e * (1 + 0.01 * (settings.guarantee == "user")), domain, settings),
    )
    with pytest.raises(InputError, match=r"loses 0.70\d+, more than epsilon .*guarantee=user"):
        list(contract._losses(define("new", "smp")))


@pytest.mark.parametrize("rate", [0, 2])
def test_a_wrong_estimator_is_found(monkeypatch, rate):
    def wrong(recipe, d, k):
        rates = list(rates_of(recipe, d, k))
        rates[rate] *= 1.05
        return type(rates_of(recipe, d, k))(*rates)

    compiled = contract.Plan.compiled.__func__
    monkeypatch.setattr(
        contract.Plan, "compiled", classmethod(lambda cls, *arguments: compiled(cls, *arguments, rates=wrong))
    )
    with pytest.raises(InputError, match=r"is biased: value .* of attribute"):
        list(contract._estimates(define()))


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_a_wrong_variance_is_found(monkeypatch, factor):
    right = Mechanism.fixed_variance
    monkeypatch.setattr(Mechanism, "fixed_variance", lambda *a, **o: right(*a, **o) * factor)
    with pytest.raises(InputError, match="does not have its stated variance"):
        list(contract._estimates(define()))


def test_a_backend_that_counts_something_else_is_found(monkeypatch):
    from gpu_rsfd.backends.cpu.backend import NumpyBackend

    right = NumpyBackend.count

    def off_by_one(self, *arguments):
        counts, sampled = right(self, *arguments)
        counts[-1][..., 0] += 1
        return counts, sampled

    monkeypatch.setattr(NumpyBackend, "count", off_by_one)
    with pytest.raises(InputError, match="backend numpy does not count the literal reports"):
        list(contract._reports(define()))


def test_reports_in_chunks_that_differ_are_found(monkeypatch):
    from gpu_rsfd.measure import reports

    right = reports.Chunk.sent_bits
    monkeypatch.setitem(reports.SENT, Bits, lambda *arguments: ~right(*arguments))
    with pytest.raises(InputError, match="report_chunks does not give the literal reports of attribute 0"):
        list(contract._reports(define()))


def test_a_sampler_with_another_distribution_is_found(monkeypatch):
    from gpu_rsfd.backends.exact import draws

    right = draws.DRAWS[Bits]

    def doubled(*arguments):
        counts = right(*arguments)
        return counts + (counts > 30)

    monkeypatch.setitem(draws.DRAWS, Bits, doubled)
    with pytest.raises(InputError, match=r"is biased: .*\(counts"):
        list(contract._samplers(define()))


@pytest.mark.parametrize("word", ["channel", "client"])
def test_what_is_no_protocol_is_a_measurement(word):
    with pytest.raises(gpu_rsfd.InputError, match=f"has no {word}; write other mechanisms as gpu_rsfd.Measurement"):
        gpu_rsfd.protocol("mine", solution="smp", **{word: lambda e, k: None})
