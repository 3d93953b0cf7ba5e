"""The model of `pod_steps`, in numpy: a few weights that all samples move in every step."""

import numpy as np

FEATURES, SAMPLES, RATE = 6, 48, 0.2


def weights_after(steps):
    """The weights after so many steps, by one process."""
    weights = np.zeros(FEATURES)
    x, y = samples()
    for _ in range(steps):
        weights -= RATE * gradient(weights, x, y) / SAMPLES
    return weights


def samples():
    draw = np.random.default_rng(5)
    x = draw.normal(size=(SAMPLES, FEATURES))
    return x, (x @ draw.normal(size=FEATURES) > 0).astype("float64")


def gradient(weights, x, y):
    return x.T @ (1 / (1 + np.exp(-x @ weights)) - y)
