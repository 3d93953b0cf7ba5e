"""Submission: one job, many places. Data flows one way: file -> job -> check -> render -> submit -> handle."""
