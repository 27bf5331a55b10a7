"""A user's script with every public name, which mypy checks strictly (see `files` in pyproject.toml). It is not run."""

from typing import assert_type

import marmix
from marmix import audit, datasets, estimate, evaluation, io, objectives, persistence, plotting, skore, tables, torch
from marmix.inference import bootstrap, hypotheses, intervals
from marmix.inference.tables import Table

ESTIMATORS = [
    marmix.MARClassifierCV(),
    marmix.MARStudentMixture(),
    marmix.MARLogisticRegression(),
    marmix.MARKernelClassifier(),
    marmix.MARBoostingClassifier(),
    marmix.LabelledRows(marmix.MARGaussianMixture()),
    marmix.WithUnlabelled(marmix.MARGaussianMixture(), []),
]
LOADERS = [datasets.load_tumours, datasets.load_mammography, datasets.load_odd_digits]
DISPLAYS = [
    plotting.CalibrationDisplay,
    plotting.MixtureDisplay,
    plotting.RocDisplay,
    plotting.SensitivityDisplay,
    plotting.ThresholdDisplay,
    plotting.UncertaintyDisplay,
]

rows = datasets.make_mar_mixture(100, random_state=0)
X, y = rows.data, datasets.hide_labels(rows.target_true, rows.posterior, random_state=0)
clf = marmix.MARGaussianMixture(covariance_type="full").fit(X, y)
assert_type(clf, marmix.MARGaussianMixture)
proba, q = clf.predict_proba(X), clf.missing_proba(X)

result = clf.inference(X, y)
assert_type(result, marmix.Inference)
assert_type(result.summary(), Table)
assert_type(result.test_informative(), hypotheses.HypothesisTest)
assert_type(result.bootstrap(19), bootstrap.Bootstrap)
assert_type(result.missingness_curve(), intervals.Curve)
assert_type(result.imputed_labels(), intervals.ImputedLabels)
assert_type(marmix.compare(clf, clf), Table)
assert_type(clf.sensitivity(X, y), marmix.Sensitivity)
print(result.bse.mean(), result.conf_int().shape, result.llf + 1.0)

drawn = marmix.Audit(clf, X, y, n=20)
assert_type(drawn, marmix.Audit)
answer: audit.AuditResult = drawn.record({3: 1})
audited: audit.AuditedClassifier | None = answer.classifier
assert_type(answer.wrong, audit.Estimate)
of_class: audit.ClassEstimates = answer.classes["1"]
page_of_rows = marmix.label_page(drawn, X, show=["note"])
drawn.record(page_of_rows.answers("audit-labels.csv"))

assert_type(estimate.share(answer, X, y, of=1), estimate.Answer)
answers = [estimate.mean(clf, X, y, [0.0, 1.0]), estimate.difference(clf, X, y, X[:, 0] > 0.0)]
answers.append(estimate.regression(answer, X, y, X[:, :1], "linear"))
sensitivity: float = marmix.diagnose(proba[:, 1], y, X, source=answer, threshold=0.5)["sensitivity"].value

score = evaluation.accuracy(y, proba, q, classes=clf.classes_)
assert_type(score, evaluation.Score)
assert_type(score.interval, tuple[float, float])
scores = [score, *(f(y, proba, q, classes=[0, 1]) for f in (evaluation.log_loss, evaluation.brier, evaluation.roc_auc))]
assert_type(evaluation.missingness_check(y, q, q), evaluation.MissingnessCheck)
sets = evaluation.conformal_sets(y, proba, q, proba, q, classes=[0, 1])
folds = [evaluation.PartialLabelKFold(5), evaluation.StratifiedPartialLabelKFold(5)]
scorer = evaluation.population_scorer("log_loss")

marmix.save(clf, "model.marmix")
about: object = persistence.describe("model.marmix"), marmix.load("model.marmix"), persistence.ContainerError
marmix.report(clf, X, y, "report.html")
counts, classes = marmix.votes([["cat", "dog"]])
display: plotting.MissingnessDisplay = plotting.MissingnessDisplay.from_estimator(clf, X, y)
converted: io.Converted = io.to_memmap("rows.csv", "rows.npy")
opened = io.open_memmap("rows.npy")
prepared: tables.Preparation = tables.Preparation().fit(X)
found = tables.Counts, tables.Encoder, marmix.BoundaryWarning, marmix.__version__, skore.checks(X)

mechanism = marmix.Mechanism(alpha=(1.0, -3.0)).profile(proba, q > 0.5)
assert_type(mechanism, marmix.Mechanism)
losses: objectives.Losses = objectives.MissingnessObjective(y).losses(proba[:, 1])
network_loss = torch.MissingnessLoss(measure="entropy")
