"""What follows from facts: a decider for each group of checks."""
