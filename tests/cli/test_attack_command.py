"""`gpu-rsfd attack`, `--guarantee` and `--prior`, the decision table, and what is refused."""

import json
import signal

import numpy as np
import pytest
from command import PAUSE, paused, refusal, run, start, stopped

import gpu_rsfd

SMALL = ["--users", "300", "--domain", "3,4", "--epsilon", "1,2", "--repetitions", "3", "--workers", "1"]


@pytest.mark.slow
def test_attack_show_and_plot(tmp_path):
    options = [*SMALL, "--protocol", "rsfd-oue-z,rsrfd-grr,spl-adp", "--prior", "dirichlet:1", "--prior-seed", "2"]
    done = run("attack", *options, "--guarantee", "attribute", cwd=tmp_path)
    assert "share of users whose sampled attribute is guessed; without a report: 0.5000" in done.stdout
    assert "guarantee: attribute; prior of fakes: dirichlet:1.0" in done.stdout
    assert "backend numpy (1 CPU process): single reports are made in NumPy" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["attack.h5", "attack.png"]
    before = (tmp_path / "attack.h5").read_bytes()
    again = run("attack", *options, "--guarantee", "attribute", cwd=tmp_path)
    assert "attack.h5 is complete: nothing to do" in again.stderr
    assert (tmp_path / "attack.h5").read_bytes() == before
    (result,) = gpu_rsfd.open_results(tmp_path / "attack.h5").values()
    data = gpu_rsfd.SyntheticDataset(300, (3, 4))
    right = gpu_rsfd.attack(
        data,
        epsilons=[1.0, 2.0],
        protocols=result.protocols,
        repetitions=3,
        guarantee="attribute",
        prior="dirichlet:1",
        prior_seed=2,
        workers=1,
    )
    assert np.array_equal(result.value_success, right.value_success)
    assert np.array_equal(result.sampled_success, right.sampled_success, equal_nan=True)
    shown = json.loads(run("show", "attack.h5", "--json", cwd=tmp_path).stdout)
    assert len(shown["rows"]) == 6
    assert shown["rows"][0]["value"] == pytest.approx(right.value_success[0, 0].mean())
    assert shown["rows"][4]["sampled"] is None
    assert run("show", "attack.h5", "--csv", cwd=tmp_path).stdout.startswith("dataset,users,")
    assert run("plot", "attack.h5", "--output", "a.svg", cwd=tmp_path).stdout == "a.svg written\n"


@pytest.mark.slow
def test_quiet_and_without_a_figure(tmp_path):
    done = run("attack", *SMALL, "--knowledge", "estimated", "--quiet", "--no-plot", "--output", "x.h5", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "")
    assert [p.name for p in tmp_path.iterdir()] == ["x.h5"]


@pytest.mark.slow
def test_an_interrupted_attack_says_how_to_go_on(tmp_path):
    process = start("attack", *SMALL, "--save-every", "0", cwd=tmp_path, first=stopped(2, PAUSE))
    paused(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "what is done is kept in attack.h5; to continue:" in err
    assert not gpu_rsfd.open_results(tmp_path / "attack.h5").complete


@pytest.mark.slow
def test_guarantees_in_a_sweep(tmp_path):
    options = [*SMALL, "--protocol", "rsrfd-grr,spl-grr", "--no-plot"]
    (tmp_path / "prior.json").write_text("[[0.5, 0.25, 0.25], [0.1, 0.2, 0.3, 0.4]]")
    done = run("sweep", *options, "--guarantee", "attribute", "--prior", "prior.json", cwd=tmp_path)
    assert "RS+RFD[GRR]" in done.stdout
    assert "guarantee: attribute; prior of fakes: given frequencies" in done.stdout
    (result,) = gpu_rsfd.open_results(tmp_path / "results.h5").values()
    assert result.spec["guarantee"] == "attribute"
    assert result.mechanism("spl-grr", 1.0, 0).budget == 1.0
    other = run("sweep", *options, "--guarantee", "user", "--prior", "prior.json", cwd=tmp_path, code=2)
    assert "guarantee: attribute in the file, user asked for" in other.stderr
    figure = run("plot", "results.h5", "--tradeoff", cwd=tmp_path)
    assert figure.stdout == "results-tradeoff.png written\n"
    plan = run("plan", "--users", "300", "--domain", "3,4", "--protocol", "rsrfd-grr", "--prior", "prior.json",
               "--epsilon", "1", "--guarantee", "attribute", "--json", cwd=tmp_path)  # fmt: skip
    (row,) = json.loads(plan.stdout)[0]["rows"]
    rows = [(0.5, 0.25, 0.25), (0.1, 0.2, 0.3, 0.4)]
    loss = gpu_rsfd.privacy_loss("rsrfd-grr", 1.0, (3, 4), "attribute", rows)
    assert (row["loss_one"], row["loss_all"]) == pytest.approx((loss[0], loss[-1]))


@pytest.mark.slow
def test_spec_files_have_them(tmp_path):
    (tmp_path / "spec.toml").write_text(
        'users = 300\ndomain = "3,4"\nrepetitions = 2\nepsilon = 1\nprotocol = "rsrfd-grr"\n'
        'guarantee = "user"\nprior = [[0.5, 0.25, 0.25], [0.1, 0.2, 0.3, 0.4]]\n'
    )
    run("sweep", "--spec", "spec.toml", "--quiet", "--no-plot", "--workers", "1", cwd=tmp_path)
    results = gpu_rsfd.open_results(tmp_path / "results.h5")
    assert results.spec["guarantee"] == "user"
    assert results.spec["prior"][0] == [0.5, 0.25, 0.25]


@pytest.mark.slow
def test_the_decision_table(tmp_path):
    options = ["--users", "50000", "--domain", "10x10", "--epsilon", "ln2", "--protocol", "rsfd-adp,smp-adp,spl-adp"]
    table = run("plan", *options, "--guarantee", "attribute", cwd=tmp_path).stdout
    lines = [line for line in table.splitlines() if line.startswith("    ln 2 ")]
    assert [line.split()[2].strip("●") for line in lines] == ["Spl[ADP]", "RS+FD[ADP]", "Smp[ADP]"], "sorted by error"
    assert all("●" in line for line in lines)
    assert "guessed without a report: sampled 0.10, value 0.10" in table
    user = run("plan", *options, "--guarantee", "user", cwd=tmp_path).stdout
    assert [("●" in line) for line in user.splitlines() if "RS+FD[ADP]" in line] == [True]
    (plan,) = json.loads(run("plan", *options, "--guarantee", "user", "--json", cwd=tmp_path).stdout)
    rows = {row["protocol"]: row for row in plan["rows"]}
    assert plan["guarantee"] == "user"
    assert rows["rsfd-adp"]["mse"] == pytest.approx(1.6e-2, rel=0.02)
    assert rows["smp-adp"]["mse"] == pytest.approx(1.6e-3, rel=0.03)
    assert rows["spl-adp"]["sampled"] is None
    assert rows["smp-adp"]["sampled"] == 1
    assert all(row["value"] >= 0.09 for row in rows.values())
    bare = run("plan", *options, "--no-attack", cwd=tmp_path).stdout
    assert "guessed" not in bare
    assert "loss: one" in bare


@pytest.mark.parametrize("arguments,message", [
    (["attack", "--guarantee", "best"], "unknown guarantee 'best'; available: paper, user, attribute"),
    (["plan", "--domain", "3", "--guarantee", "best"], "unknown guarantee 'best'"),
    (["sweep", "--prior", "true"], "prior=true needs a protocol whose fakes follow a prior; available: rsrfd-grr"),
    (["plan", "--domain", "3", "--prior", "zipf:1"], "prior=zipf:1.0 needs a protocol"),
    (["attack", "--protocol", "rsrfd-grr", "--prior", "zip:1"], "prior='zip:1' is unknown, and no such file exists"),
    (["attack", "--protocol", "rsrfd-grr", "--prior", "bad.json"], "prior[0] sums to 0.9, least 0.4"),
    (["sweep", "--protocol", "rsrfd-grr", "--prior", "short.json"], "prior has 1 attributes, but the data have 5"),
    (["attack", "--protocol", "rsrfd-grr", "--prior", "uniform", "--prior-seed", "3"], "prior_seed=3 needs a prior"),
    (["attack", "--knowledge", "all"], "unknown knowledge 'all'; available: true, estimated"),
    (["attack", "--save-every", "-1"], "save-every=-1.0 must be a number of seconds >= 0"),
    (["attack", "--output", "bad.json"], "can't be replaced"),
    (["attack", "--workers", "0"], "workers=0"),
    (["attack", "--protocol", "rsrfd-grr", "--prior", "short.json", "--output", "short.json"], "this command reads"),
    (["attack", "--workers", "2", "--device", "0"], "workers=2 are for native and numpy, devices=[0] for cupy"),
    (["plot", "--tradeoff"], "Missing argument"),
    (["plot", "x.h5", "--tradeoff", "--attribute", "a"], "--tradeoff and --attribute exclude each other"),
    (["plot", "x.h5", "--tradeoff", "--x", "users"], "--tradeoff and --x exclude each other"),
])  # fmt: skip
def test_bad_input(tmp_path, capsys, monkeypatch, arguments, message):
    (tmp_path / "bad.json").write_text("[[0.5, 0.4]]")
    (tmp_path / "short.json").write_text("[[0.5, 0.5]]")
    error = refusal(monkeypatch, capsys, tmp_path, arguments)
    assert message in error[-1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.json", "short.json"]


@pytest.mark.slow
def test_options_that_an_attack_does_not_take(tmp_path, capsys, monkeypatch):
    run("attack", *SMALL, "--quiet", "--no-plot", cwd=tmp_path)
    for command, *option in (
        *(("plot", "--postprocess", "none"), ("plot", "--attribute", "a0")),
        *(("show", "--postprocess", "none"), ("show", "--metric", "mae"), ("show", "--per", "value")),
    ):
        (error,) = refusal(monkeypatch, capsys, tmp_path, [command, "attack.h5", *option])
        wrong = f"{option[0][2:]} is for the estimates of a sweep; these results have sampled_success, value_success"
        assert wrong in error
    out = run("show", "attack.h5", "--compare", "rsfd-adp,smp-adp", cwd=tmp_path).stdout  # of what it has
    assert out.count("difference") == 2
    assert run("plot", "attack.h5", "--tradeoff", cwd=tmp_path).stdout == "attack-tradeoff.png written\n"
