"""A collection's file and its client: one mechanism with the simulation, and nothing else is accepted."""

import hashlib
import itertools
import json
import math
import os
import re
from collections import Counter

import numpy as np
import pytest
from stats import normal_bound, two_sample_z

import gpu_rsfd
from gpu_rsfd.collecting.collection import Client, Collection, collection
from gpu_rsfd.protocols import REGISTRY
from gpu_rsfd.tape import Tape

DOMAIN = (2, 3, 5)
COLUMNS = {"sex": ["female", "male"], "age": "0:18:65:inf", "city": ["Graz", "Linz", "Wien", "Wels", "none"]}
CLIENTS = [name for name, entry in REGISTRY.items() if not entry.memoised and "lh" not in name]
FAMILIES = ("smp-grr", "spl-oue", "rsfd-grr", "rsfd-oue-z", "rsfd-sue-r", "rsrfd-grr", "rsrfd-oue-r", "spl-hr",
            "rsfd-pgr", "smp-ss")  # fmt: skip


def asked(protocol, epsilon=1.0, columns=COLUMNS, **more):
    prior = "zipf:1" if gpu_rsfd.protocols.as_protocol(protocol).prior else None
    return collection(columns, protocol, epsilon, **{"missing": {"city": "none"}, "prior": prior, **more})


def entries_of(sent, smp):
    """The literal reports, user by user, as a client writes them."""
    rows = [[] for _ in sent.sampled]
    for j, (values, users) in enumerate(zip(sent.values, sent.users, strict=True)):
        for i, y in zip(users.tolist(), values, strict=True):
            entry = "".join(map(str, y)) if y.ndim else int(y)
            rows[i] += [j, entry] if smp else [entry]
    return rows


def words_of_tape(made, n, seed):
    """The client's words that say the same as the tape's."""
    tape, d = Tape(seed), len(DOMAIN)
    columns = [tape.words(1, 0, 0, 0, n) >> np.uint64(32)]
    offset = 0
    for j, m in enumerate(made.mechanisms):
        word = tape.value(j, 0, 0, n)
        columns += [word >> np.uint64(32), word & np.uint64(0xFFFFFFFF)]
        if m.recipe.unary:
            columns += [tape.uniforms(offset + v, 0, 0, n).astype(np.uint64) << np.uint64(8) for v in range(m.k)]
        offset += m.k
    assert d == len(made.columns)
    return np.stack(columns, axis=1).astype(np.uint32)


@pytest.mark.parametrize("protocol", CLIENTS)
def test_the_client_sends_the_literal_reports(protocol):
    made = asked(protocol)
    data = gpu_rsfd.SyntheticDataset(300, DOMAIN, "zipf:1", seed=3)
    codes = np.stack([data.column(j, 0, data.n) for j in range(data.d)], axis=1).tolist()
    settings = gpu_rsfd.PrivacySettings(
        priors=tuple(m.recipe.prior for m in made.mechanisms) if "rsrfd" in protocol else None
    )
    sent = gpu_rsfd.reports(data, protocol, 1.0, seed=7, settings=settings, guarantee="user")
    assert [m.recipe.noise.integers[:2] for m in sent.mechanisms] == [
        m.recipe.noise.integers[:2] for m in made.mechanisms
    ]
    words = words_of_tape(made, data.n, 7)
    assert list(made.reports(codes, words)) == entries_of(sent, protocol.startswith("smp"))
    shifted = np.roll(words, 1, axis=0)
    assert list(made.reports(codes, shifted)) != entries_of(sent, protocol.startswith("smp"))


def words_of(vector):
    return [int(word, 16) for word in re.findall("[0-9a-f]{8}", vector["words"])]


def client_of_another_language(document, record, words):
    """A report by what docs/collect.md says of the file, and nothing of ours."""
    columns, place = document["columns"], 1
    sampled = words[0] * len(columns) >> 32
    report = []
    for j, column in enumerate(columns):
        k, mine, integers = len(column["labels"]), column["others"] == "own" or j == sampled, column["integers"]
        value = record[column["name"]]
        edges = column.get("bins", "").split(":")
        if len(edges) > 1 and not isinstance(value, str):
            v = sum(float(edge) <= value for edge in edges[1:-1])
        else:
            v = column["labels"].index(value)
        y, h = words[place : place + 2]
        place += 2
        fake = sum(t <= y for t in column["prior"]) if "prior" in column else y * k >> 32
        if column["noise"] == "keep":
            sent = v if mine and h < integers[0] else (y * k >> 32) if mine else fake
        elif column["noise"] == "sets":
            keep, messages = integers[:2]
            members = [m for m in range(messages) if bin(m & (v + 1)).count("1") % 2 == 0]
            members = column["sets"][v] if "sets" in column else members
            sent = members[y * len(members) >> 32] if mine and h < keep else y * messages >> 32
        else:
            u = [word >> 8 for word in words[place : place + k]]
            place += k
            if column["noise"] == "bits":
                one = v if mine else fake if column["others"] == "fake" else None
                bits = [u[i] < integers[i != one] for i in range(k)]
            else:
                bits, left = [i == v and u[v] < integers[0] for i in range(k)], k - 1
                for i in range(k):
                    if i != v:
                        bits[i] = u[i] * left < (integers[1] - sum(bits)) << 24
                        left -= 1
            sent = "".join(str(int(bit)) for bit in bits)
        if column["others"] != "nothing" or mine:
            report += [j, sent] if column["others"] == "nothing" else [sent]
    return report


@pytest.mark.parametrize("protocol", CLIENTS)
def test_the_file_says_enough_for_a_client_in_another_language(protocol):
    document = json.loads(asked(protocol).text)
    assert len(document["vectors"]) >= 20
    for vector in document["vectors"]:
        assert len(words_of(vector)) == document["words"]
        assert client_of_another_language(document, vector["record"], words_of(vector)) == vector["report"]
    for column in document["columns"]:  # the vectors tell thresholds that are off by one
        column["integers"][0] -= 1
    reports = [client_of_another_language(document, v["record"], words_of(v)) for v in document["vectors"]]
    assert reports != [v["report"] for v in document["vectors"]]


@pytest.mark.parametrize("protocol", CLIENTS)
def test_a_collection_reads_back_to_the_same_bytes(protocol, tmp_path):
    made = asked(protocol, title="Ümfrage")
    made.save(tmp_path / "collection.json")
    made.save(tmp_path / "collection.json")  # the same one: nothing is lost
    found = Collection.read(tmp_path / "collection.json")
    assert found.text.encode() == (tmp_path / "collection.json").read_bytes() == made.text.encode()
    assert (found.columns, found.losses, found.identity) == (made.columns, made.losses, made.identity)
    assert [m.recipe for m in found.mechanisms] == [m.recipe for m in made.mechanisms]
    assert asked(protocol, title="Ümfrage").identity == made.identity != asked(protocol).identity
    zeros = made.text.replace(made.identity, "0" * 64, 1)
    assert hashlib.sha256(zeros.encode()).hexdigest() == made.identity
    loss = gpu_rsfd.privacy_loss(protocol, 1.0, DOMAIN, "user", "zipf:1" if "rsrfd" in protocol else None)
    assert np.allclose(made.losses, (loss[0], loss[-1]), rtol=1e-12)
    with pytest.raises(gpu_rsfd.InputError, match="is another file"):
        asked(protocol).save(tmp_path / "collection.json")


def signed(text):
    """The text with the identity that it should have."""
    text = re.sub('"identity": "[0-9a-f]*"', f'"identity": "{"0" * 64}"', text, count=1)
    return text.replace("0" * 64, hashlib.sha256(text.encode()).hexdigest(), 1).encode()


def test_an_altered_or_damaged_file_is_refused():
    content = asked("rsfd-oue-r").text.encode()
    for at in range(0, len(content), 7):
        for other in (content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :], content[:at], content[:at] * 2):
            with pytest.raises(gpu_rsfd.InputError, match=r"^c\.json "):
                Collection.read("c.json", other)
    assert Collection.read("c.json", signed(content.decode())).text.encode() == content


FIRST, SECOND = ("columns", 0), ("columns", 1)


@pytest.mark.parametrize(
    ("protocol", "place", "value", "why"),
    [
        ("smp-grr", (*FIRST, "integers"), [4_000_000_000], "allows epsilon=1, but its integers lose 3.3"),
        ("smp-grr", (*FIRST, "integers"), [1000], "test vector"),
        ("smp-grr", (*FIRST, "integers"), [0], "no mechanism"),
        ("smp-grr", (*FIRST, "integers"), [1e9], "integers=1000000000.0"),
        ("smp-grr", (*FIRST, "integers"), [1 << 32], "no mechanism"),
        ("smp-grr", (*FIRST, "integers"), [True], "integers=True"),
        ("smp-grr", (*FIRST, "integers"), [], "can't be used"),
        ("smp-grr", (*FIRST, "noise"), "none", "no mechanism"),
        ("smp-grr", (*FIRST, "noise"), "bits", "can't be used"),
        ("smp-grr", (*FIRST, "others"), "own", "different solutions"),
        ("smp-grr", (*FIRST, "others"), "all", "not a valid Unsampled"),
        ("smp-grr", ("epsilon",), 0.5, "allows epsilon=0.5, but its integers lose 1"),
        ("smp-grr", ("epsilon",), math.nan, "epsilon"),
        ("smp-grr", ("guarantee",), "both", "guarantee"),
        ("smp-grr", ("loss", "any_two_users"), 0.9, "states the losses"),
        ("smp-grr", ("vectors", 0, "report"), [0, 9], "test vector"),
        ("smp-grr", ("vectors", 0, "words"), "00", "can't be used"),
        ("smp-grr", ("vectors", 0, "words"), "x", "non-hexadecimal"),
        ("smp-grr", (*SECOND, "bins"), "0:0:65:inf", "rising edges"),
        ("smp-grr", (*SECOND, "bins"), "0:9:18:65:inf", "do not fit"),
        ("smp-grr", (*SECOND, "bins"), "10", "needs edges"),
        ("smp-grr", (*SECOND, "name"), "sex", "same name"),
        ("smp-grr", (*SECOND, "name"), 3, "column=3"),
        ("smp-grr", ("columns", 2, "missing"), "no", "do not fit"),
        ("smp-grr", ("columns", 2, "labels"), ["a", "a"], "all different"),
        ("smp-grr", ("columns",), [], "domain|can't be used"),
        ("smp-grr", ("title",), 1, "title=1"),
        ("smp-grr", ("schema",), "gpu-rsfd collection 2", "not a 'gpu-rsfd collection 1'"),
        ("smp-grr", ("columns",), None, "can't be used"),
        ("rsrfd-grr", (*FIRST, "prior"), [5_000_000_000], "prior=5000000000"),
        ("rsrfd-grr", (*SECOND, "prior"), [9, 3], "no mechanism"),
        ("rsfd-pgr", (*FIRST, "sets"), [[99_999_999]] * 2, "100,000,000 messages"),
        ("rsfd-pgr", (*FIRST, "sets"), [[0, 1]] * 3, "can't be used"),
        ("spl-hr", (*FIRST, "integers"), [1000, 8, 4, 2, 0], "lacks its message sets"),
    ],
)
def test_a_file_that_breaks_its_word_is_refused_whoever_signed_it(protocol, place, value, why):
    document = json.loads(asked(protocol).text)
    at = document
    for key in place[:-1]:
        at = at[key]
    assert at[place[-1]] != value
    at[place[-1]] = value
    with pytest.raises(gpu_rsfd.InputError, match=why) as found:
        Collection.read("c.json", signed(json.dumps(document)))
    assert "\n" not in str(found.value)
    del at[place[-1]]
    if place[-1] not in ("missing", "bins"):
        with pytest.raises(gpu_rsfd.InputError, match=r"^c\.json can't be used"):
            Collection.read("c.json", signed(json.dumps(document)))


def test_what_is_no_collection(tmp_path):
    deep = b'{"identity": "' + b"0" * 64 + b'", "a": ' + b"[" * 100_000
    for content in (b"", b"[]", b"\xff\xfe", deep, b'{"identity": "' + b"0" * 64 + b'"}'):
        (tmp_path / "c.json").write_bytes(content)
        with pytest.raises(gpu_rsfd.InputError, match=r"c\.json"):
            Client(tmp_path / "c.json")
    with pytest.raises(gpu_rsfd.InputError, match="No such file"):
        Client(tmp_path / "none.json")


def test_a_report_is_made_from_the_words_of_the_operating_system(monkeypatch):
    made = asked("rsfd-adp")
    with pytest.raises(gpu_rsfd.InputError, match="record is of type int; a value by column is needed, as in a dict"):
        Client(made).randomise(5)
    drawn = []
    monkeypatch.setattr(os, "urandom", lambda n: drawn.append(n) or b"\x01" * n)
    record = {"sex": "male", "age": 41, "city": "Wien"}
    report = Client(made).randomise(record)
    words = np.full(made.words, 0x01010101, np.uint32)
    assert drawn == [4 * made.words]
    assert report == {"collection": made.identity, "report": made.report(record, words)}
    assert json.loads(json.dumps(report)) == report


def test_what_a_record_may_hold():
    made = collection({"smokes": ["true", "false"], "age": "0:18:65:120", "n": [1, 2]}, "spl-grr", 3.0)
    same = [{"smokes": True, "age": 18, "n": 1}, {"smokes": "true", "age": "64.5", "n": "1"},
            {"smokes": np.True_, "age": "[18, 65)", "n": np.int64(1)}]  # fmt: skip
    assert [made.codes(record) for record in same[:2]] == [[0, 1, 0]] * 2
    assert made.codes({"smokes": False, "age": 120, "n": 2}) == [1, 2, 1]
    for record, why in [
        ({"age": 1, "n": 1}, "'smokes' has no value, or none that"),
        ({"smokes": "maybe", "age": 1, "n": 1}, "'smokes' has no value, or none that"),
        ({"smokes": True, "age": 121, "n": 1}, "numbers from 0 to 120"),
        ({"smokes": True, "age": -1e-9, "n": 1}, "numbers from 0 to 120"),
        ({"smokes": True, "age": math.nan, "n": 1}, "numbers from 0 to 120"),
        ({"smokes": True, "age": "many", "n": 1}, "numbers from 0 to 120"),
        ({"smokes": True, "age": 1, "n": [1]}, "'n' has no value"),
        ({"smokes": True, "age": 1, "n": 1, "name": "x"}, "no column 'name'"),
    ]:
        with pytest.raises(gpu_rsfd.InputError, match=why) as found:
            Client(made).randomise(record)
        assert "maybe" not in str(found.value)
        assert "121" not in str(found.value)
    made = asked("spl-grr", missing="?")
    assert made.codes({}) == made.codes({"sex": None, "age": -1, "city": "Rom"}) == [2, 3, 5]


@pytest.mark.parametrize(
    ("columns", "more", "why"),
    [
        ({}, {}, "columns must map"),
        ({"a": ["x"]}, {}, "'a' has 1 values"),
        ({"a": ["x", "x"]}, {}, "'a' has 2 values .x, x.; valid: 2 to 65,535, all different"),
        ({"a": "10"}, {}, "needs edges"),
        ({"a": "10q"}, {}, "needs edges"),
        ({"a": "5:1"}, {}, "rising edges"),
        ({"a": 3}, {}, "'a' has 0 values"),
        ({"a": ["x", "y"]}, {"prior": "zipf:1"}, "is for RS"),
        ({"a": ["x", "y"]}, {"protocol": "rsrfd-grr", "prior": "true"}, "depends on the data"),
        ({"a": ["x", "y"]}, {"protocol": "rsrfd-grr", "prior": "noisy:1"}, "depends on the data"),
        ({"a": ["x", "y"]}, {"protocol": "spl-olh"}, "sends hashes"),
        ({"a": ["x", "y"]}, {"protocol": "spl-l-grr"}, "must remember"),
        ({"a": ["x", "y"]}, {"missing": {"b": "?"}}, "missing names 'b'"),
        ({"a": list(range(3000))}, {"protocol": "spl-pgr", "epsilon": 1.0}, "choose another protocol"),
    ],
)
def test_what_is_no_declaration(columns, more, why):
    with pytest.raises(gpu_rsfd.InputError, match=why):
        collection(columns, more.pop("protocol", "spl-grr"), more.pop("epsilon", 1.0), **more)


def test_protocols_of_ones_own():
    hashes = gpu_rsfd.protocol("h", solution="smp", bits=lambda e, k: (0.7, 0.2), loss=lambda e, k: e)
    with pytest.raises(gpu_rsfd.InputError, match="sends hashes"):
        asked(hashes, guarantee="paper")
    sets = gpu_rsfd.protocol(
        "s", solution="rsfd-r", sets=lambda e, k: [[v, (v + 1) % 7, (v + 3) % 7] for v in range(7)]
    )
    made = asked(sets)
    assert Collection.read("c.json", made.text.encode()).mechanisms == made.mechanisms


# ------------------------------------------------------------------------------------------------ exact, by enumeration


def cells(made):
    """For each word of the client, (representative, weight) of the pieces within which nothing can change."""

    def pieces(cuts):
        ends = sorted({0, 1 << 32, *(c for c in cuts if 0 < c < 1 << 32)})
        return [(a, b - a) for a, b in itertools.pairwise(ends)]

    def even(count):
        return [-(-i * (1 << 32) // count) for i in range(count)]

    yield pieces(even(len(made.columns)))
    for m in made.mechanisms:
        noise = m.recipe.noise
        whole = [m.k] if noise.kind in ("keep", "bits") else [noise.design.messages, noise.design.size]
        fakes = [] if m.recipe.unary and m.recipe.unsampled.value != "fake" else [*map(even, whole)]
        yield pieces([*itertools.chain(*fakes), *(m.recipe.prior or ())])
        yield pieces([] if m.recipe.unary else noise.integers[:1])
        for _ in range(m.k * m.recipe.unary):
            yield pieces([t << 8 for t in noise.integers])


def distributions(made):
    """Of each record, the exact number of words that lead to each report."""
    grid = list(itertools.product(*cells(made)))
    words = np.array([[word for word, _ in point] for point in grid], np.uint32)
    weights = [math.prod(weight for _, weight in point) for point in grid]
    found = {}
    for codes in itertools.product(*(range(m.k) for m in made.mechanisms)):
        found[codes] = {}
        for report, weight in zip(made.reports([list(codes)] * len(grid), words), weights, strict=True):
            key = json.dumps(report)
            found[codes][key] = found[codes].get(key, 0) + weight
    return found


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["smp-grr", "spl-oue", "rsfd-grr", "rsfd-oue-z", "rsfd-sue-r", "rsrfd-grr",
                                      "rsrfd-oue-r", "smp-hr", "rsfd-pgr"])  # fmt: skip
def test_the_loss_of_the_clients_integers_by_enumeration(protocol):
    """Every word of 32 bits is counted; uniform values are dealt out with a remainder of less than k of 2**32."""
    made = asked(protocol, 1.2, {"a": ["x", "y"], "b": ["x", "y", "z"]}, missing=None)
    found = distributions(made)
    worst = [0.0, 0.0]
    for x, y in itertools.permutations(found, 2):
        differ = sum(a != b for a, b in zip(x, y, strict=True))
        assert set(found[x]) == set(found[y])  # no report is impossible
        loss = max(math.log(found[x][r] / found[y][r]) for r in found[x])
        worst = [max(worst[0], loss if differ == 1 else 0.0), max(worst[1], loss)]
    assert worst == pytest.approx(made.losses, abs=20 / 2**32)


# --------------------------------------------------------------------------------------------------------- statistics


@pytest.mark.slow
@pytest.mark.parametrize("protocol", FAMILIES)
def test_clients_report_as_simulated_users_do(protocol, monkeypatch):
    """The client's reports of one record against simulated ones; benchmarks/collected.py does it with a million."""
    monkeypatch.setattr(os, "urandom", np.random.default_rng(1).bytes)
    n, columns = 3_000, {"a": ["x", "y"], "b": ["x", "y", "z"]}
    made, other = (asked(protocol, epsilon, columns, missing=None) for epsilon in (1.0, 3.0))
    data = gpu_rsfd.Dataset(np.array([[1, 2]] * n), (2, 3))
    settings = gpu_rsfd.PrivacySettings(
        priors=tuple(m.recipe.prior for m in made.mechanisms) if "rsrfd" in protocol else None
    )
    sent = gpu_rsfd.reports(data, protocol, 1.0, seed=2, settings=settings, guarantee="user")
    simulated = Counter(map(str, entries_of(sent, protocol.startswith("smp"))))
    clients = Client(made), Client(other)
    ours, theirs = (
        Counter(str(client.randomise({"a": "y", "b": "z"})["report"]) for _ in range(n)) for client in clients
    )
    assert two_sample_z(simulated, ours) < normal_bound(1)
    assert two_sample_z(simulated, theirs) > normal_bound(1)  # the same protocol at another epsilon
