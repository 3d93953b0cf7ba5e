"""Programs that benchmarks run by their path, which puts this directory in front of what they import: no name here is the standard library's."""
