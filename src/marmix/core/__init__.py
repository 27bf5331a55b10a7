"""The model: measures, links and mechanism, score models, likelihood, and the fitted model as one value."""
