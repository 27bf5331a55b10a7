"""A record of the numbers that marmix computes: proof that a rework changes none of them.

`write` fits the cases in the tables below, on fixed seeds and through the public API only, and stores every number in one
`.npz` file under the key "group/case/quantity". So the same script runs on the code before and after a rework, and
`compare` lists what differs:

    PYTHONPATH=OLD/src python benchmarks/record.py write old.npz      # about 100 s of CPU time
    PYTHONPATH=NEW/src python benchmarks/record.py write new.npz
    PYTHONPATH=NEW/src python benchmarks/record.py compare old.npz new.npz    # see --help

`write` also saves models in the folder `old.models` beside the record. `compare` loads those of the old record with the marmix
that is installed, and compares their predictions with the recorded ones. Its exit code is 1 if a number differs by more than
the tolerance, is missing from one of the records, or if an old model no longer loads.

Settings are spelled out in every case, so that new defaults show in the group "defaults" alone. MAGIC and gastro are read from
the folder `MARMIX_DATA`; what cannot be computed is skipped, and `write` says so.
"""

import argparse
import csv
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets as real
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import marmix
from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression, Mechanism, evaluation
from marmix.datasets import hide_labels, make_mar_mixture
from marmix.io import open_memmap, to_memmap
from paper import theory
from paper.datasets import load_gastro, load_magic

# The record.


class Record:
    """Numbers by key; `at` gives a part of it, whose keys begin with a name."""

    def __init__(self, values=None, prefix=""):
        self.values, self.prefix = {} if values is None else values, prefix

    def at(self, name):
        return Record(self.values, f"{self.prefix}{name}/")

    def put(self, name, value):
        """Store a number, an array, or all numbers and labels within a dict, a list or a dataclass. Prose is left out."""
        if hasattr(value, "compute"):  # Dask
            value = value.compute()
        if dataclasses.is_dataclass(value):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        elif hasattr(value, "_asdict"):
            value = value._asdict()
        if isinstance(value, Mapping):
            for key, part in value.items():
                self.at(name).put(str(key).replace("/", " by "), part)
        elif isinstance(value, list | tuple) and any(isinstance(part, list | tuple | dict | str) for part in value):
            for i, part in enumerate(value):
                self.at(name).put(str(i), part)
        elif not (value is None or isinstance(value, str) or callable(value)):
            array = np.asarray(value)
            key = self.prefix + name
            assert key not in self.values, f"{key} is recorded twice"
            self.values[key] = array.astype(str) if array.dtype.kind in "OUT" else array

    def attempt(self, name, function):
        """Store what a function returns, or that it refuses."""
        try:
            self.put(name, function())
        except ValueError:
            self.values[f"{self.prefix}{name}/refused"] = np.array(True)

    @contextmanager
    def case(self, name):
        """A part of the record. If it fails, that is printed and its numbers are missing; the other parts go on."""
        try:
            yield self.at(name)
        except Exception as error:
            print(f"    {self.prefix}{name} skipped: {type(error).__name__}: {str(error)[:200]}", flush=True)


# The rows.


class Rows(NamedTuple):
    """Partially labelled rows."""

    X: Any
    y: Any
    weight: Any = None

    @property
    def fresh(self):
        """Forty other rows of the same kind."""
        rng = np.random.default_rng(40)
        X = np.asarray(self.X)
        return X[rng.choice(len(X), 40)] + 0.3 * X.std(axis=0) * rng.normal(size=(40, X.shape[1]))


def simulated(n, classes, features, rate=0.5, **options):
    bunch = make_mar_mixture(n, n_classes=classes, n_features=features, rate=rate, random_state=n + classes, **options)
    return Rows(bunch.data, bunch.target)


def hidden(X, y, rate=0.4):
    """Real rows with labels hidden by the posterior of a linear discriminant analysis."""
    tau = LinearDiscriminantAnalysis().fit(X, y).predict_proba(X)
    return Rows(X, hide_labels(y, tau, rate=rate, at_least=8, random_state=1, return_y=True))


def weighted(rows):
    return rows._replace(weight=np.random.default_rng(2).integers(0, 4, len(rows.X)).astype(float))


def in_words(rows):
    """Named columns, and classes that are words."""
    import pandas as pd

    names = [f"feature {i}" for i in range(rows.X.shape[1])]
    words = np.array(["none", "low", "middle", "high"], dtype=object)
    return Rows(pd.DataFrame(rows.X, columns=names), pd.Series(words[rows.y + 1]).where(rows.y >= 0, None))


def large():
    """860,000 rows, 69 MB: an array that is left in its file."""
    rng = np.random.default_rng(3)
    y = rng.integers(2, size=860_000)
    X = rng.normal(size=(len(y), 10))
    X[:, 0] += 2.0 * y - 1.0
    return Rows(X, np.where(rng.random(len(y)) < np.exp(-(X[:, 0] ** 2)), -1, y))


ROWS = {
    "two": lambda: simulated(400, 2, 2),
    "three": lambda: simulated(500, 3, 3),
    "five": lambda: simulated(900, 5, 2, separation=3.0),
    "line": lambda: simulated(300, 2, 1),
    "skewed": lambda: simulated(400, 2, 2, distribution="gamma"),
    "labelled": lambda: simulated(300, 3, 2, rate=0.0),
    "weighted": lambda: weighted(simulated(400, 2, 2)),
    "weighted three": lambda: weighted(simulated(500, 3, 3)),
    "words": lambda: in_words(simulated(500, 3, 3)),
    "many": lambda: simulated(24_000, 2, 3, rate=0.7),
    "many three": lambda: simulated(30_000, 3, 4, rate=0.7),
    "large": large,
    "iris": lambda: hidden(*real.load_iris(return_X_y=True), rate=0.3),
    "wine": lambda: hidden(real.load_wine().data[:, :4], real.load_wine().target),
    "cancer": lambda: hidden(real.load_breast_cancer().data[:, :5], real.load_breast_cancer().target),
    "magic": lambda: hidden(
        *load_magic(columns=["fAlpha", "fLength", "fM3Long", "fSize"], download_if_missing=False, return_X_y=True), 0.7
    ),
    "gastro": lambda: Rows(*load_gastro(return_X_y=True)),
}


@cache
def rows_of(name):
    return ROWS[name]()


# The cases.

LINKS = [
    {"link": "aranda-ordaz", "shape": None},
    {"link": "aranda-ordaz", "shape": 2.5},
    {"link": "logit"},
    {"link": "cloglog"},
    {"link": None},
]
MEASURES = ["margin", "entropy", "log-entropy", "gini", "discriminant", "signed-margin"]
STRUCTURES = ["full", "tied", "diag", "spherical"]
FREE = {"link": "aranda-ordaz", "shape": None}


def variance(log_proba):
    """A measure of the user's own."""
    return np.exp(log_proba).var(axis=1)


def shared_cases():
    """(rows, options) that both kinds of estimator are fitted with."""
    yield from (("two", link | {"measure": measure}) for link, measure in product(LINKS, MEASURES))
    for rows, measure in product(["three", "five"], MEASURES[:-1]):
        yield rows, {"link": "logit", "measure": measure}
    for rows in ["three", "five", "line", "skewed", "iris", "wine", "cancer", "gastro", "labelled"]:
        yield rows, FREE | {"measure": "gini"}
        yield rows, {"link": None}
    for rows, weight in product(["two", "three"], [0, 0.3]):
        yield rows, {"mechanism_weight": weight, "measure": "entropy"}
    for rows in ["two", "three"]:
        yield rows, {"mcar_share": True, "measure": "entropy"}
        yield rows, FREE | {"mcar_share": True, "measure": "margin"}
        yield rows, {"mechanism_features": [1]}
        yield rows, FREE | {"mechanism_features": [1, 0], "mcar_share": True}
        yield rows, {"mechanism_features": [0], "mechanism_weight": 0.3}
        yield rows, {"measure": variance}
    for rows in ["weighted", "weighted three"]:
        yield rows, {"measure": "entropy"}
        yield rows, FREE | {"mechanism_features": [0]}
        yield rows, {"link": None}
    yield "words", {"mechanism_features": ["feature 2", "feature 0"], "measure": "entropy"}
    yield "words", {"classes": ["low", "middle", "high"]}
    yield "labelled", {"link": "cloglog"}
    for rows in ["many", "many three", "magic"]:
        yield rows, FREE | {"measure": "margin"}
        yield rows, {"measure": "entropy"}
        yield rows, {"link": None}
    yield "many", FREE | {"mcar_share": True, "mechanism_features": [1]}
    yield "two", {"max_iter": 3}
    yield "two", {"tol": 1e-4}


def mixture_cases():
    yield from shared_cases()
    for structure, link, rows in product(STRUCTURES, [FREE, {"link": "logit"}, {"link": None}], ["two", "three"]):
        yield rows, {"covariance_type": structure, "measure": "gini"} | link
    for structure, solver in product(STRUCTURES, ["ecm", "lbfgs"]):
        yield "iris", {"covariance_type": structure, "solver": solver}
        yield "line", {"covariance_type": structure, "solver": solver}
    for options in [FREE, {"link": "cloglog"}, {"link": None}, {"measure": "entropy"}, {"mcar_share": True}]:
        yield "two", {"solver": "ecm"} | options
    yield "three", {"solver": "ecm", "mechanism_weight": 0.3}
    yield "weighted", {"solver": "ecm", "mechanism_features": [0]}
    for structure, count in product(STRUCTURES, [2, {0: 1, 1: 3}]):
        yield "skewed", {"covariance_type": structure, "n_components": count, "random_state": 0}
    yield "skewed", {"n_components": 2, "n_init": 3, "random_state": 1}
    yield "skewed", {"n_components": 2, "solver": "ecm", "random_state": 1, "covariance_type": "tied"}
    yield "many", {"n_components": 2, "random_state": 0, "covariance_type": "tied"}
    for init in ["labelled", "kmeans"]:
        yield "three", {"init": init, "random_state": 0}
        yield "cancer", {"init": init, "random_state": 0, "covariance_type": "diag"}
    means = [[-1.0, 0.5], [1.0, 0.0]]
    start = {"weights": [0.4, 0.6], "means": means, "covariances": [np.eye(2).tolist()] * 2, "alpha": [1.0, -2.0]}
    yield "two", {"init": start}
    yield "two", FREE | {"init": {"means": means, "shape": 0.7}}
    yield "two", {"init": {"alpha": [0.5, -1.0, 0.2], "share": 0.1}, "mcar_share": True, "mechanism_features": [0]}
    yield "three", FREE | {"n_init": 4, "random_state": 3}
    yield "cancer", {"reg_covar": 0.05}
    yield "magic", {"covariance_type": "tied"}
    yield "many three", {"covariance_type": "diag"}


def logistic_cases():
    yield from shared_cases()
    for C, degree, rows in product([0.1, np.inf], [1, 2], ["two", "three"]):
        yield rows, {"C": C, "degree": degree, "measure": "entropy"}
        yield rows, {"C": C, "degree": degree, "link": None}
    yield "cancer", {"degree": 2, "C": 0.01}
    yield "two", FREE | {"C": np.inf, "mechanism_features": [1], "measure": "discriminant"}
    yield "three", {"n_init": 1}
    yield "three", FREE | {"n_init": 4, "random_state": 3}
    yield "many", {"degree": 2, "measure": "entropy"}
    yield "magic", {"C": np.inf}


KINDS = {"mixture": MARGaussianMixture, "logistic": MARLogisticRegression}
SETTINGS = {
    "mixture": {"covariance_type": "full", "link": "logit", "measure": "margin"},
    "logistic": {"C": 1.0, "degree": 1, "link": "logit", "measure": "margin"},
}


def made(kind, **options):
    """An estimator with its settings spelled out."""
    return KINDS[kind](**(SETTINGS[kind] | options))


def named(rows, options):
    """A case in words."""
    values = {key: value.__name__ if callable(value) else value for key, value in options.items()}
    return ", ".join([rows, *(f"{key}={value}" for key, value in values.items())])


# What is recorded of a fit.

ESTIMATES = (
    *("alpha_", "shape_", "share_", "weights_", "means_", "covariances_", "coef_", "intercept_"),
    *("classes_", "component_classes_", "class_prior_", "transduction_"),
    *("loglik_", "loglik_ignorable_", "loglik_missing_", "n_iter_", "converged_"),
)
CHOICES = (
    *("weights_", "score_", "comparison_", "transduction_"),
    *("held_out_proba_", "missing_proba_", "reference_proba_"),
)
ANSWERS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "missing_proba", "uncertainty")
TESTS = {
    "informative": lambda result: result.test_informative(bootstrap=False),
    "link logit": lambda result: result.test_link("logit"),
    "link cloglog": lambda result: result.test_link("cloglog"),
    "mechanism": lambda result: result.test_mechanism(bootstrap=False),
    "mcar": lambda result: result.test_mcar(),
    "goodness of fit": lambda result: result.goodness_of_fit(),
    "goodness of fit, feature": lambda result: result.goodness_of_fit(by=first_feature(result), n_bins=5),
}


def first_feature(result):
    """The name of the first feature."""
    return next(name for name in ("x0", "feature 0") if any(name in other for other in result.param_names))


def record_predictions(record, model, X):
    for name in ANSWERS:
        if callable(getattr(model, name, None)):
            record.attempt(name, lambda name=name: getattr(model, name)(X))


def record_fit(record, fit, fresh):
    """Estimates, likelihoods, and predictions for fresh rows."""
    record.put("estimates", {name: getattr(fit, name, None) for name in ESTIMATES})
    record.put("length of trace_", len(fit.trace_))
    record.put("number of notes_", len(fit.notes_))
    record.put("criteria", [fit.aic(), fit.bic(), fit.icl()])
    record_predictions(record, fit, fresh)


def estimates_of(result):
    names = ("params", "bse", "tvalues", "pvalues", "llf", "nobs")
    more = {"conf_int": result.conf_int(0.1), "cov_params": result.cov_params(), "number of notes": len(result.notes)}
    return {name: getattr(result, name) for name in names} | more


def record_inference(record, fit, rows, slow=False):
    """Standard errors, intervals and tests of a fit; with `slow`, profiles and simulations too."""
    for kind in ("sandwich", "observed", "expected"):
        record.attempt(kind, lambda kind=kind: estimates_of(fit.inference(*rows, cov_type=kind)))
    result, fresh = fit.inference(*rows, cov_type="sandwich"), rows.fresh
    record.attempt("predict_proba_interval", lambda: dict(enumerate(result.predict_proba_interval(fresh))))
    record.attempt("credible_labels", lambda: result.credible_labels(fresh))
    record.attempt("imputed_labels", lambda: result.imputed_labels())
    record.attempt("missingness_curve", lambda: result.missingness_curve())
    record.attempt("bayes_error", lambda: result.bayes_error())
    if fresh.shape[1] == 2:
        record.attempt("decision_boundary", lambda: result.decision_boundary(*fresh[:8].T))
    for name, test in TESTS.items():
        record.attempt(f"test of {name}", lambda test=test: test(result))
    imputations = result.multiple_imputations(5, random_state=0)
    record.put("multiple imputations", {name: getattr(imputations, name) for name in ("labels", "proba", "imputed")})
    codes = np.unique(imputations.labels, return_inverse=True)[1].reshape(imputations.labels.shape)
    answers = [([c.mean(), c.var()], [c.var() / len(c), c.var() / len(c)]) for c in codes.astype(float)]
    record_pooled(record.at("pooled"), marmix.pool(*zip(*answers, strict=True), dfcom=len(codes[0]) - 1))
    if slow:
        record_simulations(record, result)


def record_pooled(record, pooled):
    for name in ("params", "bse", "df", "riv", "fmi", "tvalues", "pvalues"):
        record.put(name, getattr(pooled, name))
    record.put("conf_int", pooled.conf_int())


def record_simulations(record, result):
    for name in ("alpha_1", "alpha_2", "shape", "share"):
        if name in result.param_names:
            record.attempt(f"profile of {name}", lambda name=name: result.profile(name, n_points=3))
    seeded: dict[str, Any] = {"n_resamples": 19, "random_state": 0}
    record.attempt("simulated test, informative", lambda: result.test_informative(bootstrap=True, **seeded))
    record.attempt("simulated test, mechanism", lambda: result.test_mechanism(bootstrap=True, **seeded))
    for kind in ("nonparametric", "parametric"):
        with record.case(f"bootstrap, {kind}") as part:
            bootstrap = result.bootstrap(20, kind=kind, random_state=0)
            part.put("numbers", {name: getattr(bootstrap, name) for name in ("estimates", "params", "bse", "bias")})
            part.put("conf_int", bootstrap.conf_int(method="normal"))


def record_choice(record, choice, fresh):
    """Everything of a MARClassifierCV but its seconds."""
    record.put("results_", {name: value for name, value in choice.results_.items() if name != "seconds"})
    record.put("choice", {name: getattr(choice, name) for name in CHOICES})
    record.put("number of notes_", len(choice.notes_))
    record_predictions(record, choice, fresh)


# The groups.


def mixtures(record):
    for rows, options in mixture_cases():
        with record.case(named(rows, options)) as part:
            record_fit(part, made("mixture", **options).fit(*rows_of(rows)), rows_of(rows).fresh)


def logistic_regressions(record):
    for rows, options in logistic_cases():
        with record.case(named(rows, options)) as part:
            record_fit(part, made("logistic", **options).fit(*rows_of(rows)), rows_of(rows).fresh)


def continued_fits(record):
    """Warm starts, criteria of other rows, conversions to scikit-learn."""
    for kind, rows, options in product(KINDS, ["two", "three"], [FREE, {"mechanism_features": [0]}, {"link": None}]):
        with record.case(f"{kind}, {named(rows, options)}") as part:
            data = rows_of(rows)
            fit = made(kind, warm_start=True, max_iter=4, **options).fit(data.X, data.y)
            half = data.X[::2], data.y[::2]
            part.put("criteria of other rows", [fit.aic(*half), fit.icl(*half)])
            part.put("score", fit.score(data.X, data.y))
            part.put("impute", fit.impute(*half))
            record_fit(part.at("once"), fit, data.fresh)
            record_fit(part.at("again"), fit.set_params(max_iter=1000).fit(data.X, data.y), data.fresh)
            record_fit(part.at("other rows"), fit.fit(*half), data.fresh)
    conversions = [("mixture", {"covariance_type": structure}) for structure in STRUCTURES]
    for kind, options in [*conversions, ("logistic", {"degree": 1}), ("logistic", {"degree": 2})]:
        for rows in ("two", "three"):
            with record.case(f"to_sklearn, {kind}, {named(rows, options)}") as part:
                fit = made(kind, **options).fit(*rows_of(rows))
                part.put("predict_proba", fit.to_sklearn().predict_proba(rows_of(rows).fresh))


def comparisons(record):
    for kind, rows in product(KINDS, ["two", "iris"]):
        options = [*LINKS, {"measure": "entropy"}]
        fits = [made(kind, **more).fit(*rows_of(rows)) for more in options]
        for by in ("aic", "bic", "icl"):
            with record.case(f"{kind}, {rows}, {by}") as part:
                table = marmix.compare(*fits, names=[str(i) for i in range(len(fits))], by=by, ignored="mcar")
                part.put("rows", dict(zip(table.index, table.rows, strict=True)))


INFERENCE = [
    ("mixture", "two", FREE),
    ("mixture", "two", {"mcar_share": True, "mechanism_features": [1]}),
    ("mixture", "three", {"covariance_type": "tied", "measure": "entropy"}),
    ("mixture", "weighted three", {"covariance_type": "diag"}),
    ("mixture", "iris", {"covariance_type": "spherical", "measure": "gini"}),
    ("mixture", "skewed", {"covariance_type": "tied", "n_components": 2, "random_state": 0}),
    ("mixture", "line", {"link": None}),
    ("mixture", "five", {"mechanism_weight": 0.3, "covariance_type": "tied"}),
    ("mixture", "labelled", {"link": "cloglog"}),
    ("mixture", "words", {"mechanism_features": ["feature 1"]}),
    ("mixture", "gastro", {"covariance_type": "tied"}),
    ("mixture", "cancer", {"link": "cloglog"}),
    ("mixture", "many", FREE),
    ("logistic", "two", FREE | {"C": np.inf}),
    ("logistic", "two", {"C": 1.0, "mechanism_features": [0]}),
    ("logistic", "three", {"C": np.inf, "degree": 2, "measure": "entropy"}),
    ("logistic", "weighted three", {"C": np.inf, "measure": "gini"}),
    ("logistic", "words", {"C": np.inf, "link": "cloglog"}),
    ("logistic", "line", {"C": np.inf, "link": None}),
    ("logistic", "many", {"C": np.inf}),
]
SLOW = [
    ("mixture", "line", FREE),
    ("mixture", "two", {"mechanism_features": [0], "covariance_type": "tied"}),
    ("mixture", "line", {"mcar_share": True, "measure": "entropy"}),
    ("logistic", "two", {"C": np.inf}),
]


def inference(record):
    for slow, (kind, rows, options) in [*((False, case) for case in INFERENCE), *((True, case) for case in SLOW)]:
        with record.case(f"{kind}, {named(rows, options)}{', with simulations' * slow}") as part:
            data = rows_of(rows)
            fit = made(kind, **options).fit(*data)
            record_inference(part, fit, data, slow)


def candidates():
    return {
        "mixture": made("mixture", covariance_type="tied"),
        "mixture, ignored": made("mixture", link=None),
        "logistic": made("logistic", measure="gini", mechanism_features=[0]),
        "logistic, ignored": made("logistic", C=10.0, link=None),
        "pipeline": make_pipeline(StandardScaler(), made("logistic", degree=2, mechanism_weight=0.3)),
    }


def choices(record):
    for rows, options in [
        ("two", {"cv": 3}),
        ("two", {"cv": 3, "method": "pick"}),
        ("three", {"cv": 4, "random_state": 5}),
        ("weighted", {"cv": 3}),
        ("words", {"cv": 3, "classes": ["high", "low", "middle"]}),
        ("iris", {"cv": evaluation.PartialLabelKFold(3, shuffle=True, random_state=7)}),
        ("labelled", {"cv": 3}),
    ]:
        with record.case(named(rows, options)) as part:
            data = rows_of(rows)
            choice = MARClassifierCV(estimators=candidates(), **options).fit(*data)
            record_choice(part, choice, data.fresh)
            part.attempt("to_sklearn", lambda: choice.to_sklearn().predict_proba(data.fresh))  # noqa: B023


def defaults(record):
    """Estimators without any setting: the one group that new defaults may change."""
    for estimator in (MARGaussianMixture, MARLogisticRegression):
        for rows in ("two", "three", "iris", "many", "magic"):
            with record.case(f"{estimator.__name__}, {rows}") as part:
                record_fit(part, estimator().fit(*rows_of(rows)), rows_of(rows).fresh)
    for rows in ("two", "five"):
        with record.case(f"MARClassifierCV, {rows}") as part:
            record_choice(part, MARClassifierCV(cv=3).fit(*rows_of(rows)), rows_of(rows).fresh)


def engines(record):
    """The same rows as arrays of several kinds, in files and on a cluster of one worker in this process."""
    plain = rows_of("three")
    fits = [
        ("mixture", {"covariance_type": "full"}),
        (
            "mixture",
            {"covariance_type": "tied", "measure": "entropy", "mechanism_features": [1], "mcar_share": True},
        ),
        ("logistic", {"measure": "gini"}),
        ("logistic", {"link": None, "degree": 2}),
    ]

    def all_fits(name, of_X, of_y, more=None, data=plain):
        for kind, options in fits:
            with record.case(f"{name}, {kind}, {named('', options | (more or {}))}") as part:
                fit = made(kind, **options, **(more or {})).fit(of_X(data.X), of_y(data.y))
                record_fit(part, fit, of_X(data.fresh))

    all_fits("float32", np.float32, np.int8)
    all_fits("Fortran order", np.asfortranarray, list)
    all_fits("float labels", np.asarray, lambda y: np.where(y < 0, np.nan, y))
    with record.case("pandas"):
        import pandas as pd

        all_fits("pandas", lambda X: pd.DataFrame(X, columns=list("abc")), lambda y: pd.array(y).astype("Int64"))
    with record.case("polars"):
        import polars as pl

        all_fits("polars", lambda X: pl.DataFrame(X, schema=list("abc")), np.asarray)
    with record.case("array_api_strict"):
        import array_api_strict

        all_fits("array_api_strict", array_api_strict.asarray, array_api_strict.asarray)
    with record.case("torch"):
        import torch

        torch.set_num_threads(1)
        all_fits("torch", torch.asarray, torch.asarray)
        all_fits("torch, labels here", torch.asarray, np.asarray)
        all_fits("torch float32", lambda X: torch.asarray(X, dtype=torch.float32), torch.asarray)
        all_fits("torch in single precision", torch.asarray, torch.asarray, {"precision": "single"})
    with record.case("dask"):
        import dask.array
        import distributed

        options = {"processes": False, "dashboard_address": None, "silence_logs": "CRITICAL"}
        with (
            distributed.LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster,
            distributed.Client(cluster),
        ):

            def lazy(array):
                return dask.array.from_array(array, chunks=(180, *array.shape[1:]))

            all_fits("dask", lazy, lazy)
    with tempfile.TemporaryDirectory() as folder:
        files(record, Path(folder), all_fits, fits)


def files(record, folder, all_fits, fits):
    counts = iter(range(1000))

    def path_of(array):
        path = folder / f"{next(counts)}.npy"
        np.save(path, array)
        return path

    all_fits("small file", path_of, np.asarray)
    data, fresh = rows_of("large"), rows_of("large").fresh
    X, y = path_of(data.X), path_of(data.y)
    for kind, options in fits[:3]:
        with record.case(f"large file, {kind}, {named('', options)}") as part:
            fit = made(kind, **options).fit(X, data.y)
            record_fit(part, fit, fresh)
            part.put("missing_proba of the file", fit.missing_proba(X)[::5000])
    with record.case("large file, labels in a file") as part:
        fit = made("mixture", covariance_type="diag", **FREE).fit(X, y)
        record_fit(part, fit, fresh)
        part.put("impute", np.asarray(fit.impute(X, y, out=folder / "imputed.npy"))[::50])
    with record.case("large array, pass over a copy in memory") as part:
        record_fit(part, made("mixture", covariance_type="tied").fit(data.X, data.y), fresh)
    with record.case("to_memmap") as part:
        table = folder / "table.csv"
        write_table(table, 3)
        converted = to_memmap(
            table, folder / "table.npy", columns=["width", "height"], label="kind", missing="drop", progress=False
        )
        part.put("converted", converted)
        part.put("opened", open_memmap(folder / "table.npy"))


def scores(record):
    for rows, (kind, options) in product(["two", "five"], [("mixture", {}), ("logistic", {"measure": "entropy"})]):
        with record.case(f"{kind}, {named(rows, options)}") as part:
            X, y, _ = rows_of(rows)
            fit = made(kind, **options).fit(X, y)
            other = made(kind, link=None).fit(X, y)
            p, q, tau = other.predict_proba(X), fit.missing_proba(X), fit.predict_proba(X)
            for name in ("log_loss", "brier", "accuracy", "roc_auc"):
                score = getattr(evaluation, name)
                part.put(name, score(y, p, q, classes=fit.classes_))
                part.put(f"{name}, doubly robust", score(y, p, q, classes=fit.classes_, posterior=tau))
                for splitter in (evaluation.PartialLabelKFold, evaluation.StratifiedPartialLabelKFold):
                    folds = splitter(3, shuffle=True, random_state=1)
                    scorer = evaluation.population_scorer(name, fit)
                    part.put(f"{name}, {splitter.__name__}", cross_val_score(other, X, y, cv=folds, scoring=scorer))
            part.put("missingness_check", evaluation.missingness_check(y, q, X[:, 0], n_bins=7))


def theories(record):
    line = theory.GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    plane = theory.GaussianClasses([0.3, 0.7], [[-1.0, 0.0], [1.0, 0.5]], [np.eye(2), [[2.0, 0.3], [0.3, 0.5]]])
    three = theory.GaussianClasses([0.3, 0.3, 0.4], [[0.0, 0.0], [2.0, 0.0], [0.0, 2.5]], np.eye(2), "tied")
    entropy, margin = Mechanism("entropy", (-2.0, 3.0)), Mechanism("margin", (2.0, -4.0), shape=2.0, free_shape=True)
    for name, model, mechanism in [
        ("line", line, entropy),
        ("line, free shape", line, margin),
        ("plane", plane, margin),
        ("three", three, Mechanism("gini", (-2.0, 5.0), 0.0, 0.1, False, True)),
    ]:
        with record.case(name) as part:
            part.put("missing_rate/value", theory.missing_rate(model, mechanism))
            part.put("excess_risk/value", theory.excess_risk(model, mechanism, labels="modelled"))
            part.put("excess_risk, mcar/value", theory.excess_risk(model, labels="mcar", rate=0.4))
            for labels in theory.REGIMES:
                value = theory.excess_risk(model, mechanism, labels=labels)
                part.put(f"relative_efficiency/coefficients/{labels}/value", value)
            part.put("unlabelled_efficiency/value", theory.unlabelled_efficiency(model))
            part.put("mechanism_at_rate", theory.mechanism_at_rate(model, mechanism, 0.6))


def mechanisms(record):
    """`Mechanism` as users of other classifiers call it."""
    rng = np.random.default_rng(6)
    for K, shape, measure in product([2, 4], [0.0, 1.0, 3.0], MEASURES):
        if measure == "signed-margin" and K > 2:
            continue
        with record.case(f"{measure}, {K} classes, shape {shape:g}") as part:
            scores = rng.normal(size=(200, K)) * np.repeat([1.0, 5.0, 60.0, 700.0], 50)[:, None]
            covariates, missing = rng.normal(size=(200, 1)), rng.random(200) < 0.4
            mechanism = Mechanism(measure, (0.3, -0.7, 0.2), shape, share=0.05)
            part.put("measure", mechanism.uncertainty(scores))
            part.put("missing_proba", mechanism.missing_proba(scores, covariates))
            part.put("terms", mechanism.terms(scores, missing, covariates))
            free = Mechanism(measure, (0.0, 0.0, 0.0), shape, free_shape=shape == 1.0)
            part.put("profile", free.profile(scores[:100], missing[:100], covariates=covariates[:100]))


def draws(record):
    for family, K, d in product(["gaussian", "student", "laplace", "gamma", "beta"], [2, 4], [1, 3]):
        with record.case(f"{family}, {K} classes, {d} features") as part:
            part.put("draw", make_mar_mixture(60, distribution=family, n_classes=K, n_features=d, random_state=1))
    tau = make_mar_mixture(80, random_state=2)
    for measure, link in product(MEASURES, ["logit", "cloglog", None]):
        with record.case(f"hide_labels, {measure}, {link}") as part:
            part.put("hidden", hide_labels(tau.target_true, tau.posterior, link, measure=measure, random_state=3))
    options = [
        {"max_margin": 0.6, "link": "aranda-ordaz", "shape": 2.0},
        {"weights": [0.2, 0.8], "side": 1, "rate": 0.3, "slope": -2.0},
        {"at_least": 20, "rate": 0.5, "as_frame": True},
    ]
    for i, more in enumerate(options):
        with record.case(f"more, {i}") as part:
            bunch = make_mar_mixture(100, random_state=4, **more)
            del bunch["frame"]
            part.put("draw", bunch)
    for name in ("magic", "gastro"):
        with record.case(name) as part:
            X, y, _ = rows_of(name)
            order = np.arange(len(X))
            part.put("sums", [X.mean(), X.std(), np.sum(order @ X), y.sum(), order @ y])


# Saved models and the command line.


def saved_models(record, folder):
    """Models in files: what the loaded ones predict, and that it is what they predicted before."""
    for name, rows, model in [
        ("mixture", "two", made("mixture", **FREE)),
        ("mixture-ecm", "two", made("mixture", solver="ecm", mcar_share=True)),
        ("mixture-tied", "three", made("mixture", covariance_type="tied", mechanism_features=[1])),
        ("mixture-diag", "words", made("mixture", covariance_type="diag", mechanism_features=["feature 1"])),
        ("mixture-spherical", "five", made("mixture", covariance_type="spherical", measure="gini")),
        ("mixture-components", "skewed", made("mixture", n_components={0: 1, 1: 2}, random_state=0)),
        ("mixture-ignored", "line", made("mixture", link=None)),
        ("mixture-labelled", "labelled", made("mixture")),
        ("logistic", "two", made("logistic", **FREE, C=np.inf)),
        ("logistic-degree", "three", made("logistic", degree=2, measure="log-entropy")),
        ("logistic-words", "words", made("logistic", measure="discriminant", mechanism_weight=0.3)),
        ("logistic-ignored", "five", made("logistic", link=None)),
        ("pipeline", "iris", make_pipeline(StandardScaler(), made("mixture", link="cloglog"))),
        ("choice", "two", MARClassifierCV(estimators=candidates(), cv=3)),
        ("choice-words", "words", MARClassifierCV(estimators=candidates(), cv=3, method="pick")),
    ]:
        with record.case(name) as part:
            data = rows_of(rows)
            model.fit(data.X, data.y)
            marmix.save(model, folder / f"{name}.marmix", overwrite=True)
            loaded = marmix.load(folder / f"{name}.marmix")
            part.put("rows", data.fresh)
            record_predictions(part.at("answers"), loaded, data.fresh)
            difference = np.abs(loaded.predict_proba(data.fresh) - model.predict_proba(data.fresh)).max()
            part.put("difference after loading", difference)
            if not isinstance(model, MARClassifierCV) and not hasattr(model, "steps"):
                part.put("criteria", [loaded.aic(), loaded.bic(), loaded.icl()])


def write_table(path, classes):
    """A CSV file with an identifier, a categorical column, missing features and missing labels."""
    bunch = make_mar_mixture(240, n_classes=classes, rate=0.4, random_state=classes)
    rng = np.random.default_rng(classes)
    empty, colour = rng.random((240, 3)) < 0.03, rng.choice(["red", "green", "blue"], 240)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "width", "height", "colour", "kind"])
        for i in range(240):
            cells = [*(f"{x:.5f}" for x in bunch.data[i]), colour[i]]
            cells = ["" if lost else cell for cell, lost in zip(cells, empty[i], strict=True)]
            writer.writerow([f"row {i}", *cells, "" if bunch.missing[i] else f"kind {bunch.target[i]}"])


def marmix_command(*arguments):
    """Run `marmix` and return what it prints."""
    command = [sys.executable, "-m", "marmix", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"marmix {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[:300]}")
    return done.stdout


def columns_of(text):
    """The columns of a CSV file: numbers where all cells are, else text."""
    header, *lines = csv.reader(text.splitlines())
    columns = {}
    for name, cells in zip(header, zip(*lines, strict=True), strict=True):
        try:
            columns[name] = np.array([float(cell) if cell else np.nan for cell in cells])
        except ValueError:
            columns[name] = np.array(cells)
    return columns


def command_line(record, folder):
    """`marmix fit` on files of two and three classes, then `predict` and `evaluate` with the model it wrote."""
    for classes, options in [
        (2, []),
        (3, []),
        (3, ["--model", "mixture", "--link", "aranda-ordaz", "--impute-features", "drop"]),
    ]:
        case = f"{classes} classes" + ", mixture" * bool(options)
        with record.case(case) as part, tempfile.TemporaryDirectory() as temporary:
            table, out = folder / f"{case}.csv", Path(temporary) / "out"
            write_table(table, classes)
            marmix_command("fit", table, "--label", "kind", "--id", "name", "--out", out, "--quiet", *options)
            part.put("imputed.csv", columns_of((out / "imputed.csv").read_text(encoding="utf-8")))
            summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
            summary["statistical"].pop("passes", None)
            summary.pop("reproduction")
            part.put("summary.json", summary)
            shutil.copy(out / "model.marmix", folder / f"{case}.marmix")
            part.put("predicted", columns_of(marmix_command("predict", folder / f"{case}.marmix", table)))
            scores = marmix_command("evaluate", folder / f"{case}.marmix", table, "--label", "kind", "--json")
            part.put("evaluated", json.loads(scores))


GROUPS = {
    "mixture": mixtures,
    "logistic": logistic_regressions,
    "choice": choices,
    "continued": continued_fits,
    "compare": comparisons,
    "inference": inference,
    "engines": engines,
    "evaluation": scores,
    "theory": theories,
    "mechanism": mechanisms,
    "datasets": draws,
    "defaults": defaults,
}
GROUPS_WITH_FILES = {"saved": saved_models, "command": command_line}  # they write into the folder of models


def models_folder(path):
    return path.with_suffix(".models")


def write(path, only):
    warnings.simplefilter("ignore")
    os.environ["OMP_NUM_THREADS"] = "1"  # of the command line
    folder = models_folder(path)
    folder.mkdir(parents=True, exist_ok=True)
    record, begin = Record(), time.perf_counter()
    print(f"marmix {marmix.__version__} from {Path(marmix.__file__).parent}", flush=True)
    for group, function in (GROUPS | GROUPS_WITH_FILES).items():
        if only and group not in only:
            continue
        start, size = time.perf_counter(), len(record.values)
        with threadpool_limits(1):
            function(record.at(group), *([folder] if group in GROUPS_WITH_FILES else []))
        print(f"{group:12}{len(record.values) - size:8,} items {time.perf_counter() - start:8.1f} s", flush=True)
    np.savez_compressed(path, **record.values)
    print(f"{'all':12}{len(record.values):8,} items {time.perf_counter() - begin:8.1f} s, written to {path}")
    return 0


# Comparison.


def difference(old, new):
    """The largest relative difference of two arrays; infinite where they are not the same kind of thing.

    An entry counts relative to itself, or to a thousandth of the largest one of its array where it is smaller than that. Of
    text, the share of entries that differ.
    """
    if old.shape != new.shape or (old.dtype.kind == "U") != (new.dtype.kind == "U"):
        return np.inf
    if old.dtype.kind == "U":
        return float(np.mean(old != new)) if old.size else 0.0
    old, new = old.astype(float), new.astype(float)
    finite = np.isfinite(old)
    if not np.array_equal(old[~finite], new[~finite], equal_nan=True) or not np.isfinite(new[finite]).all():
        return np.inf
    gaps = np.abs(old - new)[finite]
    if not gaps.any():
        return 0.0
    sizes = np.abs(old[finite])
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nanmax(gaps / np.maximum(sizes, 1e-3 * sizes.max())))


OLD_FILE = "old file, "  # marks predictions of the old record's models by the marmix that is installed


def with_old_models(old, new, folder):
    """Both records with what the old record's model files predict: once as recorded, once as computed now."""
    now = Record()
    for path in sorted(folder.glob("*.marmix")):
        table = path.with_suffix(".csv")
        with now.at("command" if table.exists() else "saved").case(path.stem) as part:
            if table.exists():
                part.put("predicted", columns_of(marmix_command("predict", path, table)))
            else:
                record_predictions(part.at("answers"), marmix.load(path), old[f"saved/{path.stem}/rows"])
    recorded = [key for key in old if "/answers/" in key or "/predicted/" in key]
    return (
        old | {OLD_FILE + key: old[key] for key in recorded},
        new | {OLD_FILE + key: value for key, value in now.values.items()},
    )


def quantity(key):
    """What a key is about, without its case."""
    group, _, *rest = key.split("/")
    return f"{group}: {' '.join(rest)}"


def compare(old_path, new_path, tolerance, only, skip, every):
    warnings.simplefilter("ignore")
    records = []
    for path in (old_path, new_path):
        with np.load(path) as file:
            records.append(dict(file))

    def wanted(key):
        group = key.removeprefix(OLD_FILE).split("/")[0]
        return group not in skip and (not only or group in only)

    old, new = (
        {key: value for key, value in record.items() if wanted(key)}
        for record in with_old_models(*records, models_folder(old_path))
    )
    gaps = {key: difference(old[key], new[key]) for key in old if key in new}
    cases: dict[str, list[str]] = {}
    for key in gaps:
        cases.setdefault(quantity(key), []).append(key)
    largest = {what: max(keys, key=gaps.__getitem__) for what, keys in cases.items()}
    shown = sorted((key for key in largest.values() if every or gaps[key]), key=lambda key: -gaps[key])
    if shown:
        print(f"{'difference':>10}  {'cases':>5}  quantity, and the case where it differs most")
    for key in shown:
        print(f"{gaps[key]:10.2g}  {len(cases[quantity(key)]):5}  {quantity(key)}   [{key.split('/')[1]}]")
    absent = [f"only in {old_path}: {key}" for key in old if key not in new]
    absent += [f"only in {new_path}: {key}" for key in new if key not in old]
    for line in absent[:50]:
        print(line)
    beyond = sum(gap > tolerance for gap in gaps.values())
    print(
        f"{len(gaps):,} items compared, {sum(gap == 0.0 for gap in gaps.values()):,} of them equal; largest relative "
        f"difference {max(gaps.values(), default=np.nan):.2g}; {beyond} above {tolerance:g}, {len(absent)} in one record only."
    )
    return int(bool(beyond or absent or not gaps))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="compute and store the numbers")
    writing.add_argument("record", type=Path)
    comparing = commands.add_parser("compare", help="list what differs between two records")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--tolerance", type=float, default=1e-10)
    comparing.add_argument("--skip", nargs="+", default=[], help="groups to leave out, such as defaults")
    comparing.add_argument("--every", action="store_true", help="list quantities without a difference too")
    for command in (writing, comparing):
        command.add_argument(
            "--only", nargs="+", default=[], choices=[*GROUPS, *GROUPS_WITH_FILES], help="these groups"
        )
    options = vars(parser.parse_args())
    if options.pop("command") == "write":
        return write(options["record"], options["only"])
    return compare(options.pop("old"), options.pop("new"), **options)


if __name__ == "__main__":
    sys.exit(main())
