"""The paper's data sets from their original files: small fakes of them, since the files are not ours to ship."""

import hashlib

import numpy as np
import pytest
from realdata import as_csv, shared_rows

import gpu_rsfd
from gpu_rsfd.datasets import paper


@pytest.fixture(autouse=True)
def _no_originals(monkeypatch):
    monkeypatch.delenv("GPU_RSFD_DATA", raising=False)


def fake_counts(names, rows, **extra):
    """Published counts that fit these rows."""
    attributes = []
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        labels = sorted(set(column))
        attributes.append({"name": name, "labels": labels, "counts": [column.count(x) for x in labels]})
    return {"users": len(rows), "attributes": attributes, **extra}


def publish(monkeypatch, counts):
    monkeypatch.setattr(paper, "published_counts", lambda name: counts)


def write(folder, monkeypatch, **files):
    """Writes files (dots as __) and makes their digests the expected ones."""
    digests = {}
    for key, text in files.items():
        path = folder / key.replace("__", ".").replace("_", "-")
        path.write_text(text, encoding="utf-8")
        digests[path.name] = hashlib.sha256(text.encode()).hexdigest()
    monkeypatch.setattr(paper, "SHA256", digests)


def adult_line(workclass, sex, salary, country="Cuba"):
    return (
        f"39, {workclass}, 77516, Bachelors, 13, Divorced, Sales, Wife, White, {sex}, 0, 0, 40, {country}, {salary}\n"
    )


ADULT = {
    "adult__data": adult_line("Private", "Male", "<=50K") + adult_line("?", "Male", ">50K") + "\n",
    "adult__test": "|1x3 Cross validator\n"
    + adult_line("State-gov", "Female", ">50K.", "Iran")
    + adult_line("Private", "Female", "<=50K.", "?"),
}
ADULT_ROWS = [
    ("Private", "Bachelors", "Divorced", "Sales", "Wife", "White", "Male", "Cuba", "<=50K"),
    ("State-gov", "Bachelors", "Divorced", "Sales", "Wife", "White", "Female", "Iran", ">50K"),
]


def adult_counts():
    names = [a["name"] for a in paper.published_counts("adult")["attributes"]]
    counts = fake_counts(names, ADULT_ROWS)
    for attribute in counts["attributes"]:
        if len(attribute["labels"]) == 1:  # a domain needs two values
            attribute["labels"], attribute["counts"] = [*attribute["labels"], "~"], [2, 0]
    return counts


def test_adult_from_its_files(tmp_path, monkeypatch):
    write(tmp_path, monkeypatch, **ADULT)
    publish(monkeypatch, adult_counts())
    data = gpu_rsfd.load_dataset("adult", data_dir=tmp_path)
    rows = [tuple(data.labels[j][data.column(j, i, i + 1)[0]] for j in range(9)) for i in range(2)]
    assert rows == ADULT_ROWS
    assert data.source == data.describe()["source"] == "rows of adult.data and adult.test"
    monkeypatch.setenv("GPU_RSFD_DATA", str(tmp_path))
    assert gpu_rsfd.load_dataset("adult").describe() == data.describe()


@pytest.mark.slow
def test_real_adult_rows_survive_the_loader(tmp_path, monkeypatch):
    """Files rebuilt around the real rows give back the real codes, and pass the check of the real counts."""
    codes, _, labels = shared_rows("adult")
    columns = [np.array(row)[codes[:, j]] for j, row in enumerate(labels)]
    lines = []
    for i, row in enumerate(zip(*columns, strict=True)):
        fields = ["0"] * 15
        for place, value in zip(paper.SHAPES["adult"][1], row, strict=True):
            fields[place] = str(value)
        lines.append(", ".join(fields) + ("." if i >= 30_162 else "") + "\n")
    write(tmp_path, monkeypatch, adult__data="".join(lines[:30_162]), adult__test="|1x3\n" + "".join(lines[30_162:]))
    data = gpu_rsfd.load_dataset("adult", data_dir=tmp_path)
    assert all(np.array_equal(data.column(j, 0, data.n), codes[:, j]) for j in range(9))
    (tmp_path / "adult.test").write_text("".join(lines[30_162:-1]))
    monkeypatch.setattr(paper, "SHA256", {})
    with pytest.raises(ValueError, match=r"'workclass' has other counts than published: incomplete file\?"):
        gpu_rsfd.load_dataset("adult", data_dir=tmp_path)


def test_census_income_keeps_every_row(tmp_path, monkeypatch):
    def line(i):
        return ", ".join("?" if j == 1 and i else "NA" if j == 40 and i else f"v{j}.{i}" for j in range(42)) + ".\n"

    write(tmp_path, monkeypatch, census_income__data=line(0) + line(1), census_income__test=line(1))
    kept = paper.SHAPES["census-income"][1]
    assert len(kept) == 33
    rows = [["?" if j == 1 and i else "NA" if j == 40 and i else f"v{j}.{i}" for j in kept] for i in (0, 1, 1)]
    publish(monkeypatch, fake_counts([f"a{j}" for j in kept], rows))
    data = gpu_rsfd.load_dataset("census-income", data_dir=tmp_path)
    assert data.n == 3
    assert data.labels[0] == ("?", "v1.0")
    assert data.labels[-1] == ("NA", "v40.0")
    assert data.counts[:2].tolist() == [2, 1]


FIMU = ["Visitor category", "Gender", "Age", "Geolife", "Region", "Sleeping area"]


def fimu(tmp_path, monkeypatch, text, rows):
    counts = fake_counts(FIMU, rows)
    counts["attributes"][4] |= {"placeholders": "region_", "labels": ["region_00", "region_01"]}
    publish(monkeypatch, counts)
    (tmp_path / "Personal_table.csv").write_text(text, encoding="utf-8")


def test_ms_fimu_by_column_names(tmp_path, monkeypatch):
    rows = [
        ("R", "F", "<18", "NR", "Rhône", "a"),
        ("T", "M", ">65", "x", "Alsace", "b"),
        ("T", "M", ">65", "x", "Rhône", "b"),
    ]
    lines = [f"{i},Ann,{r[1]},{r[0]},{','.join(r[2:])}" for i, r in enumerate(rows)]
    text = "\n".join(
        ["Person ID,Name,Gender,Visitor category,Age,Geolife,Region,Sleeping area", *lines, "4,too,many" + ",x" * 9]
    )
    fimu(tmp_path, monkeypatch, text + "\n", rows)
    data = gpu_rsfd.load_dataset("ms-fimu", data_dir=tmp_path)
    assert data.names == tuple(FIMU)
    assert data.labels[4] == ("Alsace", "Rhône")
    assert data.column(4, 0, 3).tolist() == [1, 0, 1]
    for wrong, message in (
        (text.replace("Alsace", "Rhône", 1), "'Region' has other counts than published"),
        (text[::-1].replace("enôhR", "ecaslA", 1)[::-1], "'Region' has other counts than published"),
        (text.replace("Gender", "Sex"), "has no column 'Gender'; columns: Person ID, Name, Sex, "),
        ("\n".join([*text.split("\n")[:3], "5,Bo"]), "'Visitor category' has other counts than published"),
    ):
        fimu(tmp_path, monkeypatch, wrong, rows)
        with pytest.raises(ValueError, match=message):
            gpu_rsfd.load_dataset("ms-fimu", data_dir=tmp_path)


def test_nursery_file_is_confirmed(tmp_path):
    expected = gpu_rsfd.load_dataset("nursery")
    (tmp_path / "nursery.data").write_text(as_csv(expected) + "\n")
    confirmed = gpu_rsfd.load_dataset("nursery", data_dir=tmp_path)
    assert confirmed.describe() == {**expected.describe(), "source": "rows of nursery.data"}
    (tmp_path / "nursery.data").write_text(as_csv(expected))
    with pytest.raises(
        ValueError, match=r"nursery.data is not the original file, or not all of it: sha256=\w{64}; valid: 8e0"
    ):
        gpu_rsfd.load_dataset("nursery", data_dir=tmp_path)


def test_wrong_or_incomplete_originals(tmp_path, monkeypatch):
    def refused(message, **files):
        write(tmp_path, monkeypatch, **{**ADULT, **files})
        with pytest.raises(ValueError, match=message) as error:
            gpu_rsfd.load_dataset("adult", data_dir=tmp_path)
        assert "\n" not in str(error.value)

    publish(monkeypatch, adult_counts())
    counts = r"' has other counts than published: incomplete file\?$"
    refused("'workclass" + counts, adult__data="1, 2, 3\n")
    refused("'workclass" + counts, adult__data=ADULT["adult__data"] * 2)
    refused("'sex" + counts, adult__data=adult_line("Private", "X", "<=50K"))
    refused("'sex" + counts, adult__data=adult_line("Private", "Female", "<=50K"))
    write(tmp_path, monkeypatch, **ADULT)
    (tmp_path / "adult.data").write_bytes(b"\xff\xfe")
    monkeypatch.setattr(paper, "SHA256", {})
    with pytest.raises(ValueError, match="not the text that is expected"):
        gpu_rsfd.load_dataset("adult", data_dir=tmp_path)
    (tmp_path / "adult.test").unlink()
    with pytest.raises(ValueError, match=r"is incomplete for adult: no adult.test; needed: adult.data, adult.test"):
        gpu_rsfd.load_dataset("adult", data_dir=tmp_path)


def test_a_folder_without_the_files(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"has no original file of .* adult: adult.data, adult.test$"):
        gpu_rsfd.load_dataset("adult", data_dir=tmp_path)
    monkeypatch.setenv("GPU_RSFD_DATA", str(tmp_path))
    assert gpu_rsfd.load_dataset("adult").source == "columns rebuilt from published counts"
    monkeypatch.delenv("GPU_RSFD_DATA")
    with pytest.raises(ValueError, match=r"data_dir='.*nowhere' is not a folder"):
        gpu_rsfd.load_dataset("adult", data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("GPU_RSFD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"GPU_RSFD_DATA='.*nowhere' is not a folder"):
        gpu_rsfd.load_dataset("adult")
