"""Write ``data/models-VERSION.zip``: a small model of each kind, as this version of marmix saves it, and what they predict."""

import json
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
    save,
)
from marmix.persistence.format import FORMAT_VERSION
from marmix.tables import Preparation

DATA = Path(__file__).parent / "data"


def rows(K):
    """Sixty rows of K classes, some labels lost."""
    rng = np.random.default_rng(1)
    truth = np.arange(60) % K
    X = rng.normal(size=(60, 2)) + 2.0 * np.eye(3)[truth][:, :2]
    y = np.array(["ash", "birch", "cedar"], dtype=object)[truth]
    y[rng.uniform(size=60) < 0.4] = None
    return X, y


TWO, THREE = rows(2), rows(3)
LETTERS = np.array(list("pqrs"))[np.arange(60) % 4]
FRAME = pd.DataFrame(THREE[0], columns=["a", "b"])
TYPED = FRAME.assign(c=pd.Categorical(LETTERS)), THREE[1]
TABLE = pd.DataFrame({"a": TWO[0][:, 0], "b": TWO[0][:, 1], "c": LETTERS}), TWO[1]
LABELLED = tuple(values[TWO[1].astype(bool)] for values in TWO)
GRID = {"tied": MARGaussianMixture(covariance_type="tied"), "linear": MARLogisticRegression(link=None)}
SCALED = make_pipeline(StandardScaler(), MARGaussianMixture(link="logit")).set_output(transform="pandas")

KINDS = {  # estimators, and the rows to fit them to
    "full": (MARGaussianMixture(covariance_type="full", link="logit", measure="entropy"), THREE),
    "tied, share": (MARGaussianMixture(link="aranda-ordaz", mcar_share=True, shape=0.5), TWO),
    "diag, several": (MARGaussianMixture(covariance_type="diag", n_components={"birch": 2}, random_state=0), THREE),
    "spherical, ignored": (MARGaussianMixture(covariance_type="spherical", link=None), TWO),
    "label term": (MARGaussianMixture(delta={"ash": 0.5}, link="logit"), TWO),
    "labelled": (MARGaussianMixture(), LABELLED),
    "student": (MARStudentMixture(dof="by_class", covariance_type="full", mechanism_features=[0]), TWO),
    "student, common": (MARStudentMixture(dof=4, link=None), THREE),
    "logistic": (MARLogisticRegression(link="cloglog", C=np.inf), TWO),
    "quadratic": (MARLogisticRegression(degree=2, link="logit", mechanism_features=[1], n_init=1), THREE),
    "kernel": (MARKernelClassifier(C=1.0, gamma=0.5, n_landmarks=5, mechanism_weight=0.3), THREE),
    "boosting": (MARBoostingClassifier(n_estimators=4, learning_rate=0.5, mechanism_weight=0.1), TYPED),
    "pipeline": (SCALED, (FRAME, THREE[1])),
    "table": (make_pipeline(Preparation(), StandardScaler(), MARLogisticRegression(link="logit")), TABLE),
    "choice": (MARClassifierCV(estimators=GRID, cv=2, prior={"ash": 0.4}, rivals=True), TWO),
    "picked": (make_pipeline(Preparation(), MARClassifierCV(estimators=GRID, cv=2, method="pick")), TABLE),
}


def main():
    warnings.simplefilter("ignore")
    name, answers = f"models-{FORMAT_VERSION}.zip", {}
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(DATA / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for kind, (model, (X, y)) in KINDS.items():
            save(model.fit(X, y), Path(folder, kind), about={"made by": "make_models.py"})
            archive.write(Path(folder, kind), f"{kind}.marmix")
            plain = X[:5].to_dict("list") if isinstance(X, pd.DataFrame) else X[:5].tolist()
            answers[kind] = {"X": plain, "predict_proba": model.predict_proba(X[:5]).tolist()}
            if hasattr(model, "missing_proba"):
                answers[kind]["missing_proba"] = model.missing_proba(X[:5]).tolist()
        archive.writestr("answers.json", json.dumps(answers))


if __name__ == "__main__":
    main()
