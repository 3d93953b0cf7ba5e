"""What a run says: lines, plots, scalars."""
