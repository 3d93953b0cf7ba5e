"""What PaddleRec 1.8.5 called its package, run by umiak."""
