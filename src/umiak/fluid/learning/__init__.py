"""How a program learns: gradients, clips, regularizers, optimizers, learning rates."""
