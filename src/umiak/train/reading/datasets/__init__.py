"""Reader classes that open files themselves, as those of PaddleRec 2 do: run in processes, stacked to batches, divided among trainers. A package.

division   who runs the class on which files, and takes which samples       stacking   samples to a batch, and how it is sent
worker     the process that runs the class                                  processes  those of one trainer
samples    a trainer's batches
"""
