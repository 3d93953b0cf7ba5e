"""Comparing training with plain Paddle: what `umiak train --compare plain` records, runs and reports."""
