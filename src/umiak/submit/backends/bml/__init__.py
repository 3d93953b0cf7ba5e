"""Baidu BML: custom training jobs through its five calls, with files in BOS."""
