"""Slurm: one sbatch script for a job, one launcher on every node that it gets."""
