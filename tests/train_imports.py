"""What a process of `tests.train_runs` imports before it is divided: importing Paddle takes longer than a small run."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import umiak.train.engines.paddle
    import umiak.train.run.main  # noqa: F401
