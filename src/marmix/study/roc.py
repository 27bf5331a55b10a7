"""The ROC figure: the three estimators of Table I."""

import numpy as np

from marmix.arrays import Array
from marmix.displays import RocDisplay
from marmix.displays.drawing import GREY, canvas
from marmix.inference.tables import Table
from marmix.study import comparison
from marmix.study.blocks import Claim, Item, Page, Picture, Sheet
from marmix.study.comparison import ComparisonRuns
from marmix.study.drawing import LINES
from marmix.study.methods import BAYES, ECM_AO, ECM_LOGIT, LOGISTIC
from marmix.study.metrics import FALSE_POSITIVES
from marmix.study.pieces import Found
from marmix.study.plan import Plan
from marmix.study.published import table_1_data
from marmix.study.summaries import verdict
from marmix.study.table_1 import DATA_SET, pieces


def page(plan: Plan, found: Found) -> Page:
    """ROC curves on the paper's rows, and on fresh ones."""
    exact, setting = found[DATA_SET], ComparisonRuns(plan, found, "gaussian", True)
    both = {name: setting.versus(name, LOGISTIC, "auc") for name in (ECM_AO, ECM_LOGIT)}
    claim = Claim(
        "The ROC curves of both ECM variants lie above that of logistic regression (ROC figure).",
        verdict(list(both.values()), 1),
        "AUC on fresh rows minus that of logistic regression: "
        + ", ".join(f"{name} {d.sentence()}" for name, d in both.items())
        + ". On the paper's own rows: "
        + ", ".join(f"{name} {exact['scores'][name]['auc'] - exact['scores'][LOGISTIC]['auc']:+.3f}" for name in both)
        + ".",
    )
    picture, records = _picture(exact, setting)
    areas = [
        [f"{exact['scores'][n]['auc']:.3f}" if n in exact["scores"] else "", setting.mean(n, "auc").text()]
        for n in comparison.WITH_ROC
    ]
    table = Table("Areas under the curves", ["the paper's rows", "fresh rows"], list(comparison.WITH_ROC), areas)
    return Page("fig-roc", ITEM.title, [claim], [picture, Sheet("fig-roc", table, records)])


def _picture(
    exact: dict[str, dict[str, list[float]]], setting: ComparisonRuns
) -> tuple[Picture, list[dict[str, object]]]:
    figure, (above, below) = canvas(3.5, 6.2, 2, 1, sharex=True)
    records: list[dict[str, object]] = []

    def record(rows: str, name: str, false: Array, true: Array) -> None:
        points = zip(false, true, strict=True)
        what = "true_positives" if rows == "training" else "true_positives_minus_bayes"
        records.extend(
            {"rows": rows, "method": name, "false_positives": f, "curve": what, "value": t} for f, t in points
        )

    first = table_1_data().target_true == 0
    for name in (ECM_AO, ECM_LOGIT, LOGISTIC):
        p = np.array(exact["p"][name])
        line = LINES[name] | {"marker": None}
        drawn = RocDisplay.from_predictions(first, np.column_stack([1 - p, p]), ax=above, name=name, **line)
        record("training", name, drawn.curves[True].false_positives, drawn.curves[True].true_positives)
    means = {name: np.mean([value["roc"][name] for value in setting.values], axis=0) for name in comparison.WITH_ROC}
    for name, true in means.items():
        below.plot(FALSE_POSITIVES, true - means[BAYES], **LINES[name] | {"marker": None}, label=name)
        record("fresh", name, FALSE_POSITIVES, true - means[BAYES])
    above.plot([0, 1], [0, 1], color=GREY, linewidth=0.7)
    above.set(title="the paper's 200 rows (as published)", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1))
    below.set(title="fresh rows, mean over samples", ylabel="true positive rate\nminus that of the Bayes rule")
    below.set_xlabel("false positive rate")
    figure.legend(*below.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    caption = (
        "Above: the curves of the paper's figure, on its own rows; the ROC routine chooses its direction, so "
        f"swapped classes do not show. Below: mean curves on fresh rows over {len(setting.values)} samples, as "
        "differences to the Bayes rule."
    )
    return Picture("fig-roc", caption, figure), records


ITEM = Item("fig-roc", "ROC curves of the three estimators of Table I", pieces, page)
