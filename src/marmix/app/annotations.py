"""Labelling tools: exports of Label Studio and Prodigy as columns of a table, and rows as tasks for them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

UNSURE = "?"  # the label of a task that was skipped, or on which people disagree; "" if nobody has seen it
_OWN = ("answer", "accept", "label", "options", "meta")  # fields of Prodigy that are no features
Answer = tuple[Any, str | None, str]  # who, of which question (None for all), and the label


def read_tasks(path: Path, data: bytes) -> tuple[dict[str, list[Any]], list[str]]:
    """Columns of the tasks in a JSON or JSONL file, and which of them are answers.

    Features are the numbers, texts and truth values in `data` and `meta` of a task of Label Studio, in `meta` and the other
    fields of one of Prodigy, or in a plain record. The column of labels is called after the question in Label Studio, and
    `label` for Prodigy; if there are several annotators, each has a column besides.
    """
    wanted = "JSON from Label Studio, or JSONL from Prodigy"
    try:
        text = data.decode("utf-8-sig")
        tasks = json.loads(text if path.suffix.lower() == ".json" else f"[{','.join(text.strip().splitlines())}]")
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({error}): export {wanted}.") from None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise ValueError(f"{path} is no list of tasks or records: export {wanted}.")
    one_label = len({task.get("label") for task in tasks if "answer" in task and "options" not in task}) == 1
    rows: dict[Any, dict[str, Any]] = {}
    answers: dict[Any, list[Answer]] = {}
    for i, task in enumerate(tasks):
        key, features, given = i, [task], list[Answer]()
        if "data" in task:
            features, given = [{"id": task.get("id", i)}, task["data"], task.get("meta")], _studio(task)
        elif "answer" in task:
            key = task.get("_input_hash", i)
            public = {name: value for name, value in task.items() if not name.startswith("_") and name not in _OWN}
            features, given = [public, task.get("meta")], _prodigy(task, one_label)
        rows.setdefault(key, _scalars(*features))
        answers.setdefault(key, []).extend(given)
    return _columns(rows, answers)


def _scalars(*parts: Any) -> dict[str, Any]:
    """Single values by name."""
    return {
        str(name): value
        for part in parts
        if isinstance(part, Mapping)
        for name, value in part.items()
        if isinstance(value, str | int | float) or value is None
    }


def _studio(task: Mapping[str, Any]) -> list[Answer]:
    """The answers in a task of Label Studio."""
    answers: list[Answer] = []
    for annotation in task.get("annotations", []):
        who = annotation.get("completed_by")
        who = who.get("email", who.get("id")) if isinstance(who, Mapping) else who
        if annotation.get("was_cancelled"):
            answers.append((who, None, UNSURE))
        for part in annotation.get("result", []) if not annotation.get("was_cancelled") else []:
            if (choices := part.get("value", {}).get("choices")) is not None:
                answers.append((who, part["from_name"], choices[0] if len(choices) == 1 else UNSURE))
    return answers


def _prodigy(task: Mapping[str, Any], one_label: bool) -> list[Answer]:
    """The answer in a task of Prodigy; what is rejected is another class if there is `one_label` only."""
    chosen = task.get("accept", []) if "options" in task else [task.get("label", "")]
    label = str(chosen[0]) if len(chosen) == 1 and task["answer"] == "accept" else UNSURE
    if task["answer"] == "reject" and "options" not in task and one_label:
        label = f"not {chosen[0]}"
    return [(task.get("_annotator_id", task.get("_session_id")), "label", label)]


def _columns(
    rows: Mapping[Any, dict[str, Any]], answers: Mapping[Any, list[Answer]]
) -> tuple[dict[str, list[Any]], list[str]]:
    """Features, the label on which annotators agree, and the labels of each if there are several; which are answers."""
    everything = [answer for given in answers.values() for answer in given]
    questions = list(dict.fromkeys(name for _, name, _ in everything if name is not None))
    people = list(dict.fromkeys(who for who, _, _ in everything))
    names = list(dict.fromkeys(name for features in rows.values() for name in features))
    columns = {name: [features.get(name) for features in rows.values()] for name in names}
    ours = []
    for question in questions:
        labels = [{who: label for who, name, label in given if name in (question, None)} for given in answers.values()]
        agreed = [set(given.values()) - {UNSURE} for given in labels]
        columns[question] = [
            "" if not given else texts.pop() if len(texts) == 1 else UNSURE
            for given, texts in zip(labels, agreed, strict=True)
        ]
        ours.append(question)
        for who in people if len(people) > 1 else []:
            ours.append(f"{question} by {who}")
            columns[ours[-1]] = [given.get(who, "") for given in labels]
    return columns, ours


def tasks_of(
    tool: str, ids: tuple[str, Sequence[str]], columns: Mapping[str, Sequence[str]], label: str, classes: Sequence[str]
) -> dict[str, str]:
    """Files, by their endings, with rows as tasks: for Label Studio with the labelling interface, for Prodigy for `choice`."""
    name, values = ids
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if tool == "prodigy":
        options = [{"id": one, "text": one} for one in classes]
        lines = (
            {
                "text": "\n".join(f"{key}: {cell}" for key, cell in row.items()),
                "options": options,
                "meta": {name: value},
            }
            for value, row in zip(values, rows, strict=True)
        )
        return {"jsonl": "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)}
    tasks = [{"data": {name: value, "row": row}} for value, row in zip(values, rows, strict=True)]
    choices = "".join(f"<Choice value={quoteattr(one)}/>" for one in classes)
    view = f'<View><Table name="row" value="$row"/><Choices name="{label}" toName="row">{choices}</Choices></View>\n'
    return {"json": json.dumps(tasks, ensure_ascii=False, indent=1), "xml": view}
