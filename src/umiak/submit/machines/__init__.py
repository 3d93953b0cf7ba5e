"""Machines that are rented from a cloud, and released again."""
