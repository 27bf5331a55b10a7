"""Exports of labelling tools: each becomes the table that people mean; rows become tasks whose answers are read again."""

import json

import pytest

from marmix import Audit, MARLogisticRegression, label_page
from marmix.app.annotations import tasks_of
from marmix.app.audit import answers_of
from marmix.app.reading import joined, read
from marmix.app.survey import Options, survey
from marmix.datasets import make_mar_mixture

pytest.importorskip("pyarrow")


def written(path, tasks):
    lines = "".join(f"{json.dumps(task)}\n" for task in tasks)
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps(tasks), encoding="utf-8")
    return read(path)


def choice(who, label=None, cancelled=False, name="kind"):
    result = [] if label is None else [{"from_name": name, "type": "choices", "value": {"choices": [label]}}]
    return {"completed_by": who, "was_cancelled": cancelled, "result": result}


def studio(*annotations, **data):
    return {"id": data.pop("id", 0), "data": data, "meta": {"site": "north"}, "annotations": list(annotations)}


def cells(table, *names):
    return [table.text(name).to_pylist() for name in names]


def test_tasks_of_label_studio_have_a_label_where_annotators_agree(tmp_path):
    tasks = [
        studio(choice(1, "oak"), choice(2, "oak"), id=4, size=1.5, boxes=[1, 2]),
        studio(choice(1, "oak"), choice(2, "elm"), id=5, size=2),
        studio(choice(1, cancelled=True), id=6, size=None),
        studio(choice(1, cancelled=True), choice({"id": 2, "email": "b@x"}, "elm"), id=7, size=0.5),
        studio(id=8, size=3),
    ]
    table = written(tmp_path / "export.json", tasks)
    assert cells(table, "id", "size", "site", "kind") == [
        ["4", "5", "6", "7", "8"],
        ["1.5", "2", "", "0.5", "3"],
        ["north"] * 5,
        ["oak", "?", "?", "elm", ""],
    ]
    assert cells(table, "kind by 1", "kind by 2") == [["oak", "oak", "?", "?", ""], ["oak", "elm", "", "", ""]]
    options = Options(tmp_path, label="kind")
    assert options.columns(table) == ["id", "size", "site"]  # what single people said is no feature


def test_answers_of_prodigy_are_labels_and_skipped_tasks_have_none(tmp_path):
    options = [{"id": "oak", "text": "oak"}, {"id": "elm", "text": "elm"}]
    tasks = [
        {"_input_hash": 1, "text": "a", "meta": {"size": 3}, "options": options, "accept": ["oak"], "answer": "accept"},
        {"_input_hash": 2, "text": "b", "options": options, "accept": ["oak", "elm"], "answer": "accept"},
        {"_input_hash": 3, "text": "c", "options": options, "accept": ["elm"], "answer": "reject"},
        {"_input_hash": 4, "text": "d", "options": options, "answer": "ignore"},
    ]
    table = written(tmp_path / "choice.jsonl", tasks)
    assert cells(table, "text", "size", "label") == [list("abcd"), ["3", "", "", ""], ["oak", "?", "?", "?"]]
    binary = [
        {"text": str(i), "label": "oak", "answer": answer} for i, answer in enumerate(["accept", "reject", "ignore"])
    ]
    assert cells(written(tmp_path / "binary.jsonl", binary), "label") == [["oak", "not oak", "?"]]
    several = [*binary, {"text": "x", "label": "elm", "answer": "accept"}]  # a rejected label says not which it is
    assert cells(written(tmp_path / "several.jsonl", several), "label") == [["oak", "?", "?", "elm"]]
    people = [
        {"_input_hash": 1, "_annotator_id": who, "text": "a", "label": "oak", "answer": answer}
        for who, answer in (("p", "accept"), ("q", "reject"))
    ]
    table = written(tmp_path / "people.jsonl", people)
    assert cells(table, "label", "label by p", "label by q") == [["?"], ["oak"], ["not oak"]]


def test_plain_records_are_a_table_and_other_json_is_refused(tmp_path):
    assert cells(written(tmp_path / "rows.json", [{"a": 1, "y": "u"}, {"a": 2}]), "a", "y") == [["1", "2"], ["u", ""]]
    for text in ("{}", "[1]", "[{", "\xff"):
        (tmp_path / "rows.json").write_text(text, encoding="latin-1")
        with pytest.raises(ValueError, match=r"rows\.json .*export JSON from Label Studio"):
            read(tmp_path / "rows.json")


def test_features_of_a_file_beside_are_joined_by_the_id(tmp_path):
    (tmp_path / "more.csv").write_text("id,width\n5,0.5\n4,0.25\n9,3\n", encoding="utf-8")
    table = written(tmp_path / "export.json", [studio(choice(1, "oak"), id=i) for i in (4, 5, 6)])
    both = joined(table, read(tmp_path / "more.csv"), "id")
    again = joined(both, read(tmp_path / "more.csv"), "id")
    assert cells(again, "width") == cells(both, "width")
    assert "'width'" in again.notes[-1]
    assert cells(both, "id", "width") == [["4", "5", "6"], ["0.25", "0.5", ""]]
    assert "no row for 1 row" in both.notes[-1]
    with pytest.raises(ValueError, match="--join: name the column"):
        joined(table, read(tmp_path / "more.csv"), "nr")
    (tmp_path / "more.csv").write_text("id,width\n5,0.5\n5,0.25\n", encoding="utf-8")
    with pytest.raises(ValueError, match="several rows with the same 'id'"):
        joined(table, read(tmp_path / "more.csv"), "id")


@pytest.mark.parametrize("tool", ["label-studio", "prodigy"])
def test_answers_to_tasks_of_an_audit_are_read_again(tool, tmp_path):
    import numpy as np

    classes = ["oak", 'the "elm"']
    rows = {"size, cm": ["1", "2", "3"], "note": ["<b>", "", "ü"]}
    files = tasks_of(tool, ("marmix_row", ["7", "2", "9"]), rows, "marmix_label", classes)
    if tool == "prodigy":
        tasks = [json.loads(line) for line in files["jsonl"].splitlines()]
        assert [option["id"] for option in tasks[0]["options"]] == classes
        answers = [{"accept": [classes[1]], "answer": "accept"}, {"answer": "ignore"}]
        done = [task | answer for task, answer in zip(tasks, answers, strict=False)]
    else:
        tasks = json.loads(files["json"])
        assert tasks[1]["data"]["row"] == {"size, cm": "2", "note": ""}
        assert "<Choice value='the \"elm\"'/>" in files["xml"]
        answers = [choice(1, classes[1], name="marmix_label"), choice(1, cancelled=True)]
        done = [task | {"annotations": [answer]} for task, answer in zip(tasks, answers, strict=False)] + tasks[2:]
    table = written(tmp_path / ("done.jsonl" if tool == "prodigy" else "done.json"), done)
    assert answers_of(table, np.array(classes)) == {7: classes[1], 2: None}


def test_an_export_is_surveyed_like_any_file(tmp_path):
    tasks = [
        studio(choice(1 + i % 5 // 4, "oak" if i % 2 else "elm", cancelled=i % 3 == 0), id=i, size=i % 7 + i % 2)
        for i in range(40)
    ]
    table = written(tmp_path / "export.json", tasks)
    plan = survey(table, Options(tmp_path / "export.json", label="kind"))
    assert plan.rows.classes.tolist() == ["elm", "oak"]
    assert (plan.rows.codes < 0).sum() == 14
    assert plan.options.id == "id"
    assert plan.preparation.features_in() == ["size"]
    assert plan.table.names == ["id", "size", "site", "kind"]  # a next fit of what is written sees no other answers
    plan = survey(table, Options(tmp_path / "export.json", votes=("kind by 1", "kind by 2")))
    assert plan.preparation.features_in() == ["size"]
    assert plan.table.names == ["id", "size", "site", "kind by 1", "kind by 2"]


def test_answers_of_the_page_in_a_notebook_are_recorded(tmp_path):
    pytest.importorskip("jinja2")
    data = make_mar_mixture(120, random_state=0)
    clf = MARLogisticRegression().fit(data.data, data.target)
    audit = Audit(clf, data.data, data.target, n=6, random_state=0)
    page = label_page(audit, data.data)
    assert "<iframe srcdoc=" in page._repr_html_()
    assert all(f'"{row + 1}"' in page.html for row in audit.pending)
    labels = [*data.target_true[audit.rows][:4], "?", ""]
    lines = [f"{row + 1},{label},\n" for row, label in zip(audit.rows, labels, strict=True)]
    (tmp_path / "audit-labels.csv").write_text(
        "".join(["marmix_row,marmix_label,marmix_note\n", *lines]), encoding="utf-8"
    )
    answers = page.answers(tmp_path / "audit-labels.csv")
    assert list(answers) == audit.rows[:5].tolist()
    audit.record(answers)
    assert audit.recorded == answers
    assert len(audit.pending) == 1
