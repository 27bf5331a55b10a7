"""Made-up reports, realistic and hostile, for the tests of the page."""

import io
from dataclasses import replace
from functools import cache

import numpy as np

from marmix.app.findings import (
    Caution,
    ClassFacts,
    Comparison,
    Contender,
    Contents,
    DataFacts,
    Estimate,
    Figure,
    Findings,
    LabelFacts,
    MissingnessFacts,
    ModelFacts,
    Reproduction,
    StatisticalFacts,
)
from marmix.evaluation.joint import Range
from marmix.evaluation.verdict import DO_NOT_USE, NOT_VERIFIED, UNKNOWN, Verdict
from marmix.plotting.drawing import canvas, styled

SCORES = ("log_loss", "log_loss_stderr", "accuracy")

HOSTILE = [
    "<script>window.broken = 1</script>",
    "</script><img src=x onerror='window.broken = 1'>",
    '"><svg onload="window.broken = 1">',
    "\u202egnp.eviL\u202c & 'quoted' \"twice\"",
    "=cmd|' /C calc'!A0",
    'a,b\r\nc"d',
    "\u2028\u2029 \ud83d\ude00 \U0001f9ec 髙 \x07",
    "x" * 10_000,
    "-1+2",
    "@SUM(1)",
    "&lt;b&gt; <!-- --> <![CDATA[",
    "-0.5",
]


@cache
def picture(key, dark):
    """A small PNG as matplotlib writes it, with one line."""
    with styled(dark):
        figure, ax = canvas(4.6 if key == "calibration" else 5.2, 4.0)
        ax.plot([0.0, 1.0], [0.0, 1.0])
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=144)
    return buffer.getvalue()


def figures():
    """All figures."""
    titles = {"missingness": "How often labels are missing", "calibration": "Calibration"}
    return [
        Figure(key, title, f"{title}, in a sentence for its caption.", picture(key, False), picture(key, True))
        for key, title in titles.items()
    ]


FEW = "Only 19 rows are labelled 'malignant'."
CONFUSION = [[106.2, 5.9], [5.8, 94.1]]
SCOREBOARD = [
    Contender(
        name,
        name == "marmix",
        Range(wrong, wrong - 6.0, wrong + 9.0),
        wrong - 8.0,
        accuracy,
        Range(loss, loss - 0.03, loss + 0.04),
        loss - 0.065,
    )
    for name, accuracy, loss, wrong in (
        ("marmix", 0.951, 0.1423, 14.6),
        ("logistic regression", 0.931, 0.1913, 22.1),
        ("random forest", 0.938, 0.1803, 19.7),
        ("gradient boosting", 0.929, 0.1982, 24.0),
    )
]


def class_facts(names, given, confusion):
    """Given and imputed labels with precision and recall from a confusion matrix; the last class has no numbers."""
    counts = np.array(confusion)
    right, imputed, true = counts.diagonal(), counts.sum(axis=0), counts.sum(axis=1)
    return [
        ClassFacts(
            name,
            given[k],
            round(imputed[k]),
            *(
                Range(share, max(share - 0.1, 0.0), min(share + 0.06, 1.0))
                for share in (right[k] / imputed[k], right[k] / true[k], 1.0 / len(names))
            ),
        )
        for k, name in enumerate(names)
    ]


@cache
def many_classes(n, name="kind {}"):
    """A report on n classes, with 40 features, 25 candidates and long lists of everything."""
    contents = two_classes()
    old, names = contents.findings, [name.format(k) for k in range(n)]
    rng = np.random.default_rng(n)
    confusion = (rng.gamma(0.3, 1.5, (n, n)) + np.diag(rng.gamma(8.0, 3.0, n))).round(1).tolist()
    features = [f"measurement {j} of {name.format(j)}" for j in range(40)]
    classes = class_facts(names, rng.integers(4, 90, n).tolist(), confusion)
    classes[-1] = ClassFacts(names[-1], 4, 0)  # no numbers
    findings = replace(
        old,
        data=replace(old.data, features=features, columns=features),
        labels=replace(old.labels, classes=classes),
        model=replace(old.model, candidates=7 * old.model.candidates),
        estimates=old.estimates
        + [Estimate(f"cov[{a}, {b}]", False, 0.1, 0.1, 0.0, 0.2) for a in features for b in features[:5]],
        verdict=replace(
            old.verdict,
            state=DO_NOT_USE,
            reasons=[f"Only 4 rows are labelled {names[-1]!r}.", FEW],
            next="Label more rows until every class has 20 labels",
            command="",
        ),
        confusion=confusion,
        cautions=[*old.cautions, *(Caution("note", f"Note {i} on a column. {LONG}", LONG) for i in range(40))],
    )
    return replace(contents, findings=findings)


LONG = "It goes on for a while, so that the list of notes is as long as that of a file with many doubtful columns."


@cache
def two_classes():
    """A report on two classes, as of breast cancer data."""
    features = [
        f"{what} {stat}" for stat in ("mean", "error", "worst") for what in ("radius", "texture", "area", "concavity")
    ]
    alpha = [Estimate("alpha_0", True, 1.31, 0.214, 0.89, 1.73), Estimate("alpha_1", True, -4.07, 0.512, -5.07, -3.06)]
    weights = [
        Estimate("weight[benign]", False, 0.6312, 0.0204, 0.5903, 0.6701),
        Estimate("weight[malignant]", False, 0.3688, 0.0204, 0.3299, 0.4097),
    ]
    means = [
        Estimate(f"mean[{name}, {feature}]", False, 1234.567 / (i + 1), 0.31, 1230.0 / (i + 1), 1239.0 / (i + 1))
        for name in ("benign", "malignant")
        for i, feature in enumerate(features)
    ]
    covariances = [
        Estimate(f"cov[{a}, {b}]", False, -0.000123, None, None, None) for a in features[:4] for b in features[:3]
    ]
    findings = Findings(
        data=DataFacts(
            file="breast-cancer.csv",
            rows=569,
            label="diagnosis",
            id="patient",
            features=features,
            columns=features,
            incomplete_rows=12,
            rule="Missing numbers were replaced by the median of their column.",
            notes=["The column 'comment' holds text with more than 20 values and was left out."],
        ),
        labels=LabelFacts(
            given=357,
            missing=212,
            imputed=212,
            unfilled=0,
            classes=class_facts(["benign", "malignant"], [245, 112], CONFUSION),
        ),
        model=ModelFacts(
            name="average of 3 models: Gaussian classes 0.62, logistic regression 0.38",
            kind="MARClassifierCV",
            converged=True,
            candidates=[
                dict(zip(("candidate", "missingness", "weight", *SCORES, "rows"), row, strict=True))
                for row in (
                    ("Gaussian mixture, tied covariance", "modelled", 0.5, 0.1423, 0.0181, 0.951, 20_000),
                    ("logistic regression, linear", "modelled", 0.38, 0.1502, 0.0203, 0.947, 569),
                    ("Gaussian mixture, tied covariance", "ignored", 0.12, 0.1671, 0.0215, 0.940, 569),
                    ("logistic regression, linear", "ignored", 0.0, None, None, None, 569),
                )
            ],
            rule="Candidates with a weight below 0.001 are left out.",
        ),
        statistical=StatisticalFacts(
            name="Gaussian mixture with one covariance matrix for all classes, missingness modelled",
            kind="MARGaussianMixture",
            parameters={"covariance": "tied", "mechanism_weight": 1.0, "random_state": 0},
            converged=True,
            loglik=-12345.678,
            iterations=38,
            passes=61,
            weight=0.5,
        ),
        missingness=MissingnessFacts(
            informative=True,
            p_value=3.2e-16,
            test="likelihood-ratio test",
            sentence="Rows that are hard to classify have lost their labels more often than easy ones.",
            toss_up=0.786,
            certain=0.0602,
        ),
        comparison=Comparison(
            better=True,
            sentence="Compared with candidates that ignore the missingness: clearly better.",
            ours=0.1423,
            theirs=0.1671,
            gain=0.0248,
            low=0.0074,
            high=0.0426,
        ),
        rival=Comparison(
            better=True,
            sentence="Compared with random forest, the best of the usual classifiers: clearly better.",
            name="random forest",
            ours=0.1423,
            theirs=0.1803,
            gain=0.038,
            low=0.0145,
            high=0.0615,
        ),
        scored_on="357 labelled rows, each predicted by a model fitted without it",
        estimates=weights + means + covariances + alpha,
        cautions=[
            Caution("caution", FEW, "Label more of them."),
            Caution("caution", "The rows are not independent.", "Give one row per patient."),
            Caution("note", "In 12 rows a feature was missing; it was replaced by the median of its column."),
        ],
        verdict=Verdict(
            state=NOT_VERIFIED,
            sentence="If labels are missing only because rows are hard, about 15 (8 to 24) of the 212 imputed labels are wrong.",
            reasons=[FEW],
            next="Label 20 rows that chance draws",
            command="marmix audit results --rows 20",
            of=212,
            wrong=Range(14.6, 8.0, 24.0),
            hidden=Range(14.6, 6.0, 61.0),
            accept=0.1,
        ),
        scoreboard=SCOREBOARD,
        confusion=CONFUSION,
        reproduction=Reproduction(
            command="marmix fit breast-cancer.csv --label diagnosis --id patient --model auto --seed 0 --out results",
            sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            versions={
                "marmix": "0.7.0",
                "Python": "3.13.1",
                "numpy": "2.2.0",
                "scipy": "1.15.0",
                "scikit-learn": "1.6.0",
            },
            seed=0,
        ),
    )
    return Contents(
        title="Labels of breast-cancer.csv",
        findings=findings,
        figures=figures(),
    )


def four_classes():
    """A report on four classes, with few parameters, a result against the model, and a figure left out."""
    contents = two_classes()
    old = contents.findings
    names = ["0", "1", "2", "3"]
    findings = replace(
        old,
        labels=replace(
            old.labels,
            imputed=200,
            unfilled=12,
            classes=[ClassFacts(name, 90 - 10 * i, 50) for i, name in enumerate(names)],
        ),
        verdict=replace(
            old.verdict,
            state=DO_NOT_USE,
            reasons=["The fit did not converge."],
            next="Try a simpler model or fewer features",
            command="",
            wrong=UNKNOWN,
            hidden=UNKNOWN,
        ),
        scoreboard=[],
        scored_on="",
        confusion=None,
        missingness=replace(old.missingness, informative=False, p_value=0.412, sentence="No sign of it was found."),
        comparison=Comparison(False, "No clear difference.", "", 0.19, 0.16, -0.03, -0.05, -0.01),
        estimates=old.estimates[:2] + old.estimates[-2:],
        cautions=[],
        model=replace(old.model, kind="MARGaussianMixture", candidates=[], converged=False),
        statistical=replace(old.statistical, converged=False),
        rival=replace(old.rival, better=False, gain=-0.038, low=-0.06, high=-0.02),
    )
    return replace(
        contents,
        title="Labels of readings.parquet",
        findings=findings,
        figures=[one for one in contents.figures if one.key != "calibration"],
        notes={"calibration": "Too few rows are labelled."},
    )


def with_texts(texts):
    """A report in which every text is one of `texts`, in turn."""
    texts = list(texts)
    turn = iter(range(10**6))

    def text():
        return texts[next(turn) % len(texts)]

    contents = two_classes()
    old = contents.findings
    findings = replace(
        old,
        data=DataFacts(text(), 569, text(), text(), [text() for _ in texts], [text()], 3, text(), [text()]),
        labels=replace(old.labels, classes=[ClassFacts(text(), 9, 1) for _ in texts]),
        verdict=replace(old.verdict, sentence=text(), reasons=[text(), text()], next=text(), command=f"run {text()}"),
        scoreboard=[replace(one, name=text()) for one in old.scoreboard],
        confusion=np.eye(len(texts)).tolist(),
        model=replace(
            old.model,
            name=text(),
            candidates=[{"candidate": text(), "missingness": text(), "weight": 0.5}],
            rule=f"{text()}.",
        ),
        statistical=replace(old.statistical, name=text(), kind=text(), parameters={text(): text()}, units=f"{text()}."),
        rival=replace(old.rival, name=text(), sentence=text()),
        missingness=replace(old.missingness, sentence=text(), test=text()),
        comparison=replace(old.comparison, sentence=text()),
        scored_on=text(),
        estimates=[replace(one, name=text()) for one in old.estimates],
        cautions=[Caution(level, f"{level}: {text()}", f"do {text()}") for level in ("serious", "note") for _ in texts],
        reproduction=Reproduction(text(), text(), {text(): text()}, 0),
    )
    return replace(
        contents,
        title=text(),
        findings=findings,
        figures=[replace(one, title=text(), caption=text()) for one in contents.figures[:1]],
        notes={"calibration": text()},
    )
