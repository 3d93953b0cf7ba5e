"""Huawei ModelArts: training jobs of its API version 2, with code and data in OBS."""
