"""`marmix audit`: from the folder of a fit to rows to label, and from their labels to new results."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from quick import small_fits, undrawn_figures

from marmix import Audit, MARLogisticRegression, load, save
from marmix.app.audit import answers_of
from marmix.app.reading import read
from marmix.audit import AuditedClassifier
from marmix.cli import main
from marmix.datasets import make_mar_mixture

N = 160


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with a file and the results of its fit, and the true labels."""
    folder = tmp_path_factory.mktemp("audit")
    rows = make_mar_mixture(N, rate=0.6, random_state=1)
    frame = pd.DataFrame(rows.data.round(3), columns=["size", "weight"])
    frame.insert(0, "id", [f"s{i}" for i in range(N)])
    frame["remark"] = [f"note, {i}" for i in range(N)]
    names = np.array(["ill", "well", ""])
    frame["state"] = names[np.where(rows.target < 0, 2, rows.target)]
    frame.to_csv(folder / "cells.csv", index=False)
    fit = ["--label", "state", "--id", "id", "--features", "size", "weight", "--model", "logistic", "--quiet"]
    with pytest.MonkeyPatch.context() as patch:
        small_fits(patch, tiny=True)
        undrawn_figures(patch)
        assert main(["fit", str(folder / "cells.csv"), *fit, "--out", str(folder / "results")]) == 0
    return folder, names[rows.target_true]


@pytest.fixture
def small(monkeypatch):
    """A fit is small, and its figures are not drawn."""
    small_fits(monkeypatch, tiny=True)
    undrawn_figures(monkeypatch)


@pytest.fixture
def results(fitted, tmp_path):
    """A copy of the results."""
    target = tmp_path / "results"
    target.mkdir()
    for path in (fitted[0] / "results").iterdir():
        if path.is_file():
            (target / path.name).write_bytes(path.read_bytes())
    return target


def audit(results, *options):
    return main(["audit", str(results), *options])


def filled(sheet, truth, target, change=None):
    """The sheet with its labels, in another dialect."""
    rows = table(sheet)
    places = rows["marmix_row"].astype(int) - 1
    rows["marmix_label"] = truth[places]
    for place, label in (change or {}).items():
        rows.loc[place, "marmix_label"] = label
    rows.to_csv(target, sep=";", index=False, encoding="utf-16")
    return places.tolist()


def table(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def test_from_a_folder_to_rows_and_from_their_labels_to_what_python_says(fitted, results, tmp_path, capsys):
    folder, truth = fitted
    assert audit(results, "--rows", "25", "--show", "remark") == 0
    assert "25 rows wait" in capsys.readouterr().out
    page = (results / "audit.html").read_text(encoding="utf-8")
    shown = json.loads(page.split('id="data">')[1].split("</script>")[0])
    sheet = table(results / "audit.csv")
    assert sheet["marmix_row"].tolist() == shown["ids"]
    assert [column["name"] for column in shown["columns"]] == ["id", "remark", "size", "weight"]
    assert list(sheet) == ["marmix_row", "id", "marmix_label", "remark", "size", "weight"]
    assert set(sheet["marmix_label"]) == {""}  # nobody sees what was imputed
    rows = filled(results / "audit.csv", truth, tmp_path / "labels.csv", {3: "?"})
    assert audit(results, "--labels", str(tmp_path / "labels.csv")) == 0

    file = pd.read_csv(folder / "cells.csv")
    model = load(results / "model.marmix")
    expected = Audit(model[-1], model[:-1].transform(file), file["state"], n=25)
    assert expected.rows.tolist() == rows
    result = expected.record([None if i == 3 else truth[row] for i, row in enumerate(rows)])
    summary = json.loads((results / "audited" / "summary.json").read_text(encoding="utf-8"))
    assert summary["audit"]["wrong"] == pytest.approx(result.wrong._asdict())
    assert summary["audit"]["remaining"] == pytest.approx(result.remaining._asdict())
    assert summary["verdict"]["wrong"] == pytest.approx(result.remaining._asdict())
    assert (summary["verdict"]["state"], summary["verdict"]["of"]) == (result.verdict.state, result.verdict.of)
    imputed = table(results / "audited" / "imputed.csv")
    assert imputed["marmix_label"].tolist() == result.transduction.tolist()
    source = np.where(file["state"].notna(), "given", "imputed")
    source[[row for i, row in enumerate(rows) if i != 3]] = "audited"
    assert imputed["marmix_source"].tolist() == source.tolist()
    after = load(results / "audited" / "model.marmix")
    np.testing.assert_array_equal(
        after.predict_proba(file), result.classifier.predict_proba(model[:-1].transform(file))
    )
    assert f"{result.wrong.value:,.0f}" in (results / "audited" / "report.html").read_text(encoding="utf-8")


def test_more_rows_extend_the_audit_and_labels_are_recorded_once(fitted, results, tmp_path, capsys):
    truth, labels = fitted[1], tmp_path / "labels.csv"
    audit(results, "--rows", "20")
    assert audit(results, "--rows", "5") == 1  # the sheet may hold labels
    assert "exists" in capsys.readouterr().err
    first = filled(results / "audit.csv", truth, labels)
    assert audit(results, "--labels", str(labels)) == 0
    imputed = (results / "audited" / "imputed.csv").read_bytes()
    assert audit(results, "--labels", str(labels)) == 0  # the same answers change nothing
    assert (results / "audited" / "imputed.csv").read_bytes() == imputed
    capsys.readouterr()
    for file in (fitted[0] / "cells.csv", results / "audited" / "imputed.csv"):
        assert main(["evaluate", str(results / "audited" / "model.marmix"), str(file), "--quiet", "--json"]) == 0
        assert "rows of the fit" in capsys.readouterr().out
    assert audit(results, "--rows", "12") == 0
    second = filled(results / "audit.csv", truth, labels)
    assert len(second) == 12
    assert not set(first) & set(second)
    assert audit(results, "--labels", str(labels), "--json") == 0
    assert '"n_audited": 32' in capsys.readouterr().out


def test_case_blanks_and_repeated_answers_do_not_matter(tmp_path):
    (tmp_path / "labels.csv").write_text("marmix_row,marmix_label\n1,ILL\n1,ill\n2, Well \n3,?\n4,\n", encoding="utf-8")
    answers = read(tmp_path / "labels.csv")
    assert answers_of(answers, np.array(["ill", "well"])) == {1: "ill", 2: "well", 3: None}
    with pytest.raises(ValueError, match="'Well'"):
        answers_of(answers, np.array(["ill", "well", "WELL"]))


def test_free_text_that_is_no_feature_is_shown_to_people(fitted, small, tmp_path):
    fit = ["--label", "state", "--features", "size", "weight", "remark", "--model", "logistic", "--quiet"]
    assert main(["fit", str(fitted[0] / "cells.csv"), *fit, "--out", str(tmp_path)]) == 0
    assert audit(tmp_path, "--rows", "3", "--quiet") == 0
    sheet = table(tmp_path / "audit.csv")
    assert sheet["remark"].tolist() == [f"note, {int(row) - 1}" for row in sheet["marmix_row"]]


def test_labels_that_do_not_fit_are_refused(fitted, results, tmp_path, capsys):
    truth, labels = fitted[1], tmp_path / "labels.csv"
    audit(results, "--rows", "20")
    sheet = table(results / "audit.csv")
    for change, words in (
        ({0: "sick"}, "'sick'"),
        ({4: ""}, "before a label"),
        (dict.fromkeys(range(20), ""), "no label"),
    ):
        filled(results / "audit.csv", truth, labels, change)
        assert audit(results, "--labels", str(labels)) == 1
        assert words in capsys.readouterr().err
    pd.concat([sheet.assign(marmix_label="ill"), sheet.assign(marmix_label="well")]).to_csv(labels, index=False)
    assert audit(results, "--labels", str(labels)) == 1
    assert "twice" in capsys.readouterr().err
    assert audit(results, "--labels", str(fitted[0] / "cells.csv")) == 1
    assert "marmix_row" in capsys.readouterr().err
    sheet.assign(marmix_label="ill", marmix_row="first").to_csv(labels, index=False)
    assert audit(results, "--labels", str(labels)) == 1
    assert "'first'" in capsys.readouterr().err
    assert not (results / "audited").exists()
    assert audit(results, "--half-width", "0.1") == 1
    assert "--rows" in capsys.readouterr().err


def test_the_accepted_share_of_the_draw_is_that_of_the_verdict_unless_it_is_given_again(
    fitted, results, tmp_path, capsys
):
    truth, labels = fitted[1], tmp_path / "labels.csv"
    audit(results, "--rows", "12", "--accept", "20%")
    filled(results / "audit.csv", truth, labels, dict.fromkeys(range(6, 12), ""))
    assert audit(results, "--labels", str(labels), "--rows", "5") == 1
    assert "--rows" in capsys.readouterr().err
    for words, accept in (([], 0.2), (["--accept", "30%"], 0.3), ([], 0.3)):
        assert audit(results, "--labels", str(labels), "--json", *words) == 0
        assert json.loads(capsys.readouterr().out)["verdict"]["accept"] == accept
        filled(results / "audit.csv", truth, labels, dict.fromkeys(range(8 if words == [] else 10, 12), ""))


def test_a_sheet_that_is_filled_in_further_adds_its_new_labels(fitted, results, tmp_path, capsys):
    truth, labels = fitted[1], tmp_path / "labels.csv"
    audit(results, "--rows", "12")
    rows = filled(results / "audit.csv", truth, labels, dict.fromkeys(range(5, 12), ""))
    assert audit(results, "--labels", str(labels)) == 0
    filled(results / "audit.csv", truth, labels, {0: next(name for name in ("ill", "well") if name != truth[rows[0]])})
    assert audit(results, "--labels", str(labels)) == 1  # another label than is recorded
    assert "already" in capsys.readouterr().err
    filled(results / "audit.csv", truth, labels)
    assert audit(results, "--labels", str(labels), "--json") == 0
    assert '"n_audited": 12' in capsys.readouterr().out


def test_numbers_of_a_data_frame_are_labels(tmp_path):
    path = tmp_path / "labels.csv"
    pd.DataFrame({"marmix_row": [3, 5, 9], "marmix_label": [1, None, 0]}).to_csv(path, index=False)
    assert answers_of(read(path), np.array([0, 1])) == {3: 1, 9: 0}


@pytest.mark.usefixtures("small")
def test_the_hardest_rows_are_uncertain_and_different_and_leave_the_interval_alone(fitted, results, tmp_path):
    truth = fitted[1]
    audit(results, "--rows", "20")
    rows = filled(results / "audit.csv", truth, tmp_path / "labels.csv")
    audit(results, "--labels", str(tmp_path / "labels.csv"))
    before = json.loads((results / "audited" / "summary.json").read_text(encoding="utf-8"))["audit"]
    before_hard = shutil.copy(results / "audited" / "imputed.csv", tmp_path)
    assert audit(results, "--rows", "8", "--hardest") == 0
    asked = filled(results / "hardest.csv", truth, tmp_path / "hard.csv")
    assert len(set(asked)) == 8
    assert not set(asked) & set(rows)
    imputed = table(results / "imputed.csv")
    uncertainty = imputed["marmix_uncertainty"].astype(float)
    without = imputed["marmix_source"] == "imputed"
    assert uncertainty[asked].mean() > uncertainty[without].mean()
    assert not imputed.loc[asked, ["size", "weight"]].duplicated().any()
    assert audit(results, "--labels", str(tmp_path / "hard.csv")) == 0
    after = json.loads((results / "audited" / "summary.json").read_text(encoding="utf-8"))["audit"]
    assert {key: after[key] for key in ("wrong", "classes")} == {key: before[key] for key in ("wrong", "classes")}
    assert after["counts"]["asked"] == 8
    mended = sum(table(before_hard)["marmix_label"][asked] != truth[asked])  # and these are no longer wrong
    assert mended > 0
    for limit, least in before["remaining"].items():
        assert after["remaining"][limit] == pytest.approx(max(least - mended, 0))

    again = ["fit", str(results / "audited" / "imputed.csv"), "--label", "state", "--id", "id", "--model", "logistic"]
    assert main([*again, "--exclude", "remark", "--quiet", "--out", str(tmp_path / "again")]) == 0
    new = table(tmp_path / "again" / "imputed.csv")
    old = table(results / "audited" / "imputed.csv")
    assert new["marmix_source"].tolist() == old["marmix_source"].tolist()
    labelled = old["marmix_source"] != "imputed"
    assert (new["marmix_label"] == old["marmix_label"])[labelled].all()
    summary = json.loads((tmp_path / "again" / "summary.json").read_text(encoding="utf-8"))
    assert summary["data"]["features"] == ["size", "weight"]  # nothing that marmix added
    assert summary["labels"]["given"] == labelled.sum()


def test_an_audited_classifier_is_saved_whole(tmp_path):
    rows = make_mar_mixture(300, n_classes=3, random_state=0)
    clf = MARLogisticRegression().fit(rows.data, rows.target)
    one = Audit(clf, rows.data, rows.target)
    classifier = one.record((rows.target_true[one.rows] + 1) % 3).classifier
    save(classifier, tmp_path / "model.marmix")
    again = load(tmp_path / "model.marmix")
    assert type(again) is AuditedClassifier
    for method in ("predict_proba", "unlabelled_proba", "missing_proba", "predict"):
        np.testing.assert_array_equal(getattr(again, method)(rows.data), getattr(classifier, method)(rows.data))
