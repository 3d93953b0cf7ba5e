"""Baidu AIHC (Baige): training jobs of its API version 2, with files in BOS."""
