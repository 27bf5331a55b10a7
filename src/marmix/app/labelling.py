"""The page on which someone labels the rows of an audit."""

from collections.abc import Sequence
from importlib.resources import files

from marmix.app.page import environment, policy, readable
from marmix.app.survey import PREFIX

LABEL, NOTE = f"{PREFIX}label", f"{PREFIX}note"  # columns of the download
KEYS = "123456789qwertyiopasdfghjklzxcvbm"  # of the classes; 0, u and n do something else


def labelling_page(
    plan: str,
    ids: tuple[str, Sequence[str]],
    classes: Sequence[str],
    columns: Sequence[tuple[str, str]],
    cells: Sequence[Sequence[str]],
    *,
    widths: Sequence[float] = (),
    title: str = "Rows to label",
    command: str = "marmix audit",
) -> str:
    """A page that shows rows one after the other, and takes a label, or "can't tell", for each by a key.

    It works offline and has no server: answers are kept in the browser, and downloaded as audit-labels.csv. What was imputed is
    not in it.

    Parameters
    ----------
    plan : str
        Under which the browser keeps the answers.
    ids : name and values
        The column that says which row a line of the download is.
    classes : sequence of str
        Their names as in the file.
    columns : sequence of pairs
        Name and kind, which is "text", "image" (cells are addresses) or "feature".
    cells : sequence of rows
        Texts, as in the file.
    widths : sequence of float
        Half width of the interval after 1, 2, ... rows; see `Audit.half_widths`. None by default.
    title, command : str
        What the page is called, and what takes the download.
    """
    from markupsafe import Markup

    css, js = (
        files("marmix.app").joinpath("templates", name).read_text(encoding="utf-8")
        for name in ("audit.css", "audit.js")
    )
    name, values = ids
    data = {
        "plan": plan,
        "header": [name, LABEL, NOTE],
        "ids": list(values),
        "classes": list(classes),
        "keys": list(KEYS[: len(classes)]),
        "columns": [{"name": readable(column), "kind": kind} for column, kind in columns],
        "cells": [
            [cell if kind == "image" else readable(cell, None) for cell, (_, kind) in zip(row, columns, strict=True)]
            for row in cells
        ],
        "widths": list(widths),
    }
    page = environment().get_template("audit.html")
    return str(
        page.render(
            title=title,
            command=command,
            data=data,
            css=Markup(css),
            js=Markup(js),
            policy=policy(css, js, "data: 'self' file:"),
        )
    )
