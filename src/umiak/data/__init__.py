"""Training data: readers that keep up with the trainers."""
