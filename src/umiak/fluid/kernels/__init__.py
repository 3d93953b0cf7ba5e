"""What each operation computes, with Paddle's dynamic graph."""
