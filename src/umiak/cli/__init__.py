"""The command line: one module for each command, over a small reader of flags that starts in a few milliseconds."""
