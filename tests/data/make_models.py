"""Write models to `tests/data`; test_container.py checks that the stored ones, written by version 0.1, still load."""

import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import BoundaryWarning, MARGaussianMixture, MARLogisticRegression
from marmix.persistence import save

HERE = Path(__file__).parent


def rows():
    """Sixty rows of three classes, some labels lost."""
    rng = np.random.default_rng(1)
    truth = np.arange(60) % 3
    X = rng.normal(size=(60, 2)) + 2.0 * np.eye(3)[truth][:, :2]
    y = np.array(["ash", "birch", "cedar"], dtype=object)[truth]
    y[rng.uniform(size=60) < 0.4] = None
    return X, y


MODELS = {
    "mixture-1.marmix": MARGaussianMixture(covariance_type="full", link="logit", measure="entropy"),
    "logistic-1.marmix": MARLogisticRegression(link="logit", measure="gini", mechanism_features=[0]),
    "pipeline-1.marmix": make_pipeline(StandardScaler(), MARGaussianMixture(covariance_type="tied", link="cloglog")),
}

if __name__ == "__main__":
    X, y = rows()
    answers = {}
    for name, model in MODELS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BoundaryWarning)
            model.fit(X, y)
        save(model, HERE / name, about={"made by": "make_models.py"}, overwrite=True)
        answers[name] = model.predict_proba(X[:5]).tolist()
    (HERE / "answers-1.json").write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
