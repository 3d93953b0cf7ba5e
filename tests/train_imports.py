"""What a process of `tests.train_runs` imports before it is divided: importing Paddle takes longer than a small run."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import umiak.train.run.evaluator
    import umiak.train.run.trainer  # noqa: F401
