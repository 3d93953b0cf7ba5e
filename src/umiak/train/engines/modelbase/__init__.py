"""What models in the form of PaddleRec 1.8.5 import from `paddlerec.core`: their base, its metrics, and the modules that have these names."""
