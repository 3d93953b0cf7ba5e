"""Predictions of a trained model: for files of data, part by part."""
