"""Made-up reports, realistic and hostile, for the tests of the page."""

import io
from dataclasses import replace
from functools import cache

import numpy as np

from marmix.app.findings import (
    Caution,
    Certainty,
    ClassFacts,
    Comparison,
    Contender,
    Contents,
    DataFacts,
    Estimate,
    Figure,
    Findings,
    Interval,
    LabelFacts,
    LabelsNeeded,
    MissingnessFacts,
    ModelFacts,
    Reproduction,
    RivalFacts,
    RowTable,
    ScoreFacts,
    SensitivityFacts,
    StatisticalFacts,
    Thresholds,
    Verdict,
)
from marmix.plotting.drawing import canvas, panel_size, styled

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


def picture(key, dark, wide=False):
    """A small PNG as matplotlib writes it, as large as the figure of this key."""
    return drawn(*(panel_size(30) if wide else (4.6, 4.2) if key in ("calibration", "roc") else (5.2, 3.6)), dark)


@cache
def drawn(width, height, dark):
    """The PNG of one line."""
    with styled(dark):
        figure, ax = canvas(width, height)
        ax.plot([0.0, 1.0], [0.0, 1.0])
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=144)
    return buffer.getvalue()


def figures(wide=False):
    """All figures; with `wide`, those of many small panels as large as they are."""
    return [
        Figure(
            key,
            title,
            f"{title}, in a sentence for its caption.",
            *(picture(key, dark, wide and key in ("classes", "roc")) for dark in (False, True)),
        )
        for key, title in {
            "missingness": "How often labels are missing",
            "uncertainty": "Rows with and without a label",
            "classes": "Classes in the two directions that separate them best",
            "calibration": "Calibration",
            "roc": "ROC curve",
            "sensitivity": "Sensitivity",
        }.items()
    ]


def thresholds(positive, seed, unlabelled=212, labelled=357):
    """Effects of thresholds on random probabilities."""
    rng = np.random.default_rng(seed)
    truth = rng.random(labelled) < 0.4
    proba = np.clip(rng.beta(0.4, 0.6, labelled) * 0.5 + 0.5 * truth * rng.random(labelled), 0.0, 0.98)
    hidden = rng.beta(0.6, 0.6, unlabelled)
    at = [i / 100 for i in range(101)]
    above = [proba >= cut for cut in at]
    return Thresholds(
        positive=positive,
        at=at,
        precision=[float(truth[side].mean()) if side.any() else None for side in above],
        recall=[float(side[truth].mean()) for side in above],
        accuracy=[float((side == truth).mean()) for side in above],
        unlabelled_above=[int((hidden >= cut).sum()) for cut in at],
        unlabelled=unlabelled,
        all_above=[int((hidden >= cut).sum() + side.sum()) for cut, side in zip(at, above, strict=True)],
        all=unlabelled + labelled,
    )


def row_table(classes, n=60, seed=0):
    """Rows by decreasing uncertainty: an id, a text, features, and predictions."""
    rng = np.random.default_rng(seed)
    top = np.sort(rng.random(n))
    rows = [
        [
            f"P-{rng.integers(10_000)}",
            str(rng.choice(["left", "right", "bilateral", ""])),
            f"{rng.normal(14.0, 3.0):.3f}" if i % 9 else "",
            float(rng.normal(-1.0, 2.0)),
            int(rng.integers(20, 90)),
            str(rng.choice(classes)),
            f"'{classes[0]}' (48 %) or '{classes[1]}' (45 %)",
            float(1.0 - top[i]),
        ]
        for i in range(n)
    ]
    names = ["patient", "side", "radius", "change", "age", "imputed label", "why", "uncertainty"]
    return RowTable(names, [False, False, True, True, True, False, False, True], rows, of=212, label=5, uncertainty=7)


FEW = "Only 19 rows are labelled 'malignant'."
CONFUSION = [[106.2, 5.9], [5.8, 94.1]]
SCOREBOARD = [
    Contender(
        name,
        name == "marmix",
        Interval(accuracy, accuracy - 0.02, accuracy + 0.015),
        Interval(loss, loss - 0.03, loss + 0.04),
        Interval(wrong, wrong - 6.0, wrong + 9.0),
        accuracy + 0.027,
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
                Interval(share, max(share - 0.1, 0.0), min(share + 0.06, 1.0))
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
    table = row_table(names, seed=n)
    findings = replace(
        old,
        data=replace(old.data, features=features, columns=features),
        labels=replace(old.labels, classes=classes),
        model=replace(old.model, candidates=7 * old.model.candidates),
        estimates=old.estimates
        + [Estimate(f"cov[{a}, {b}]", 0.1, 0.1, 0.0, 0.2) for a in features for b in features[:5]],
        verdict=Verdict("no", [f"Only 4 rows are labelled {names[-1]!r}: every number here is uncertain.", FEW]),
        confusion=confusion,
        cautions=[*old.cautions, *(Caution("note", f"Note {i} on a column. {LONG}", LONG) for i in range(40))],
        sensitivity=replace(old.sensitivity, label=names[-1]),
    )
    long_names = [f"{column} {name.format(j)}" for j, column in enumerate(table.columns)]
    return replace(
        contents,
        findings=findings,
        figures=figures(wide=n > 6),
        thresholds=[thresholds(one, k) for k, one in enumerate(names[:20])],
        next_rows=replace(table, columns=long_names),
    )


LONG = "It goes on for a while, so that the list of notes is as long as that of a file with many doubtful columns."


@cache
def two_classes():
    """A report on two classes, as of breast cancer data."""
    features = [
        f"{what} {stat}" for stat in ("mean", "error", "worst") for what in ("radius", "texture", "area", "concavity")
    ]
    alpha = [Estimate("alpha_0", 1.31, 0.214, 0.89, 1.73), Estimate("alpha_1", -4.07, 0.512, -5.07, -3.06)]
    weights = [
        Estimate("weight[benign]", 0.6312, 0.0204, 0.5903, 0.6701),
        Estimate("weight[malignant]", 0.3688, 0.0204, 0.3299, 0.4097),
    ]
    means = [
        Estimate(f"mean[{name}, {feature}]", 1234.567 / (i + 1), 0.31, 1230.0 / (i + 1), 1239.0 / (i + 1))
        for name in ("benign", "malignant")
        for i, feature in enumerate(features)
    ]
    covariances = [Estimate(f"cov[{a}, {b}]", -0.000123, None, None, None) for a in features[:4] for b in features[:3]]
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
            certainty=Certainty(161, Interval(14.6, 8.0, 24.0)),
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
            rivals=[
                dict(zip(("candidate", "mechanism", *SCORES), row, strict=True))
                for row in (
                    ("random forest", False, 0.1803, 0.0241, 0.938),
                    ("logistic regression", False, 0.1913, 0.0244, 0.931),
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
            helped=True,
            sentence="Modelling the missingness lowered the estimated log-loss from 0.167 to 0.142 "
            "(difference 0.0250, 95 % interval 0.0074 to 0.0426).",
            with_it=0.1423,
            without=0.1671,
            gain=0.0248,
            stderr=0.009,
            low=0.0074,
            high=0.0426,
        ),
        sensitivity=SensitivityFacts(
            label="malignant",
            odds_ratio=[0.25, 0.5, 1.0, 2.0, 4.0],
            share=[0.31, 0.35, 0.386, 0.427, 0.469],
            share_interval=[[0.27, 0.35], [0.31, 0.39], [0.33, 0.43], [0.37, 0.47], [0.40, 0.51]],
            wrong=[0.149, 0.126, 0.121, 0.136, 0.172],
            wrong_interval=[[0.10, 0.20], [0.09, 0.19], [0.09, 0.17], [0.09, 0.18], [0.12, 0.23]],
            changed=[0.128, 0.04, 0.0, 0.072, 0.117],
            changed_interval=[[0.07, 0.14], [0.03, 0.08], [0.0, 0.0], [0.02, 0.08], [0.04, 0.16]],
            tipping=[
                "More than 5 % of the imputed labels change if 'malignant' is 1.6 times as likely to lose its label."
            ],
            notes=[],
        ),
        rival=RivalFacts(
            better=True,
            sentence="The estimated log-loss is 0.142, and 0.180 for random forest "
            "(difference 0.0380, 95 % interval 0.0145 to 0.0615).",
            name="random forest",
            log_loss=0.1423,
            rival=0.1803,
            gain=0.038,
            stderr=0.012,
            low=0.0145,
            high=0.0615,
        ),
        scores=[
            ScoreFacts("log-loss", 0.1423, 0.0181, 0.1068, 0.1778, 0.0774, "lower"),
            ScoreFacts("Brier score", 0.0431, 0.0062, 0.0309, 0.0553, 0.0215, "lower"),
            ScoreFacts("accuracy", 0.9512, 0.0103, 0.9310, 0.9714, 0.9783, "higher"),
            ScoreFacts("AUC", 0.9861, 0.0042, 0.9779, 0.9943, 0.9958, "higher"),
        ],
        scored_on="357 labelled rows, each predicted by a model fitted without it",
        estimates=weights + means + covariances + alpha,
        cautions=[
            Caution("caution", FEW, "Label more of them."),
            Caution("caution", "The rows are not independent.", "Give one row per patient."),
            Caution("note", "In 12 rows a feature was missing; it was replaced by the median of its column."),
        ],
        verdict=Verdict("care", ["About 15 of the 212 imputed labels are wrong (8 to 24).", FEW]),
        scoreboard=SCOREBOARD,
        confusion=CONFUSION,
        labels_needed=[LabelsNeeded(0.05, 12), LabelsNeeded(0.02, 60)],
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
        thresholds=[thresholds("malignant", 1)],
        next_rows=row_table(["benign", "malignant"]),
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
            certainty=Certainty(200),
        ),
        verdict=Verdict("no", ["The fit did not converge: do not rely on it."]),
        scoreboard=[],
        scored_on="",
        confusion=None,
        labels_needed=[],
        missingness=replace(old.missingness, informative=False, p_value=0.412, sentence="No sign of it was found."),
        comparison=Comparison(
            False, "No evidence that modelling the missingness helps here.", 0.19, 0.16, -0.03, 0.01, -0.05, -0.01
        ),
        estimates=old.estimates[:2] + old.estimates[-2:],
        cautions=[],
        model=replace(old.model, kind="MARGaussianMixture", candidates=[], rivals=[], converged=False),
        statistical=replace(old.statistical, converged=False),
        rival=replace(old.rival, better=False, gain=-0.038, low=-0.06, high=-0.02),
    )
    return replace(
        contents,
        title="Labels of readings.parquet",
        findings=findings,
        figures=[one for one in contents.figures if one.key != "roc"],
        notes={"roc": "With four classes there is no single ROC curve."},
        thresholds=[thresholds(name, 10 + i) for i, name in enumerate(names)],
        next_rows=row_table(names, seed=3),
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
        verdict=Verdict("use", [text(), text()]),
        scoreboard=[replace(one, name=text()) for one in old.scoreboard],
        confusion=np.eye(len(texts)).tolist(),
        sensitivity=replace(old.sensitivity, label=text(), tipping=[text()], notes=[text()]),
        model=replace(
            old.model,
            name=text(),
            candidates=[{"candidate": text(), text(): text()}],
            rivals=[{"candidate": text()}],
            rule=f"{text()}.",
        ),
        statistical=replace(old.statistical, name=text(), kind=text(), parameters={text(): text()}, units=f"{text()}."),
        rival=replace(old.rival, name=text(), sentence=text()),
        missingness=replace(old.missingness, sentence=text(), test=text()),
        comparison=replace(old.comparison, sentence=text()),
        scores=[replace(score, name=text(), better=text()) for score in old.scores],
        scored_on=text(),
        estimates=[replace(one, name=text()) for one in old.estimates],
        cautions=[Caution(level, f"{level}: {text()}", f"do {text()}") for level in ("serious", "note") for _ in texts],
        reproduction=Reproduction(text(), text(), {text(): text()}, 0),
    )
    rows = [[one, text(), text(), 1.5 * i, -i, text(), i / 100, 1.0 - i / 100] for i, one in enumerate(texts)]
    return replace(
        contents,
        title=text(),
        findings=findings,
        figures=[replace(one, title=text(), caption=text()) for one in contents.figures[:3]],
        notes={"calibration": text(), "roc": text()},
        thresholds=[thresholds(one, i) for i, one in enumerate(texts)],
        next_rows=RowTable(
            [text() for _ in range(8)],
            [False, False, True, True, True, False, False, True],
            rows,
            212,
            label=5,
            uncertainty=7,
        ),
    )
