"""What PyTorch's layers do where the ids are: on a GPU, with as few waits as a step can have. Adapters."""
