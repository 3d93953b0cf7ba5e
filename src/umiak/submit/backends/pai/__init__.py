"""Alibaba PAI: DLC jobs, PyTorchJob for trainers alone, TFJob where there are servers."""
