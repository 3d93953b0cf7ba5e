"""What a process of `tests.support.train_runs` imports before it is divided: importing Paddle takes longer than a small run."""

import os
import warnings

# Before Paddle is imported, which reads it once; `train_runs.Started` says the same. Several trainers share the cores of a small machine.
os.environ["OMP_NUM_THREADS"] = "1"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import umiak.train.engines.paddle
    import umiak.train.run.main  # noqa: F401
