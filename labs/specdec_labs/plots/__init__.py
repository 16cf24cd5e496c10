"""Figures of results. Each has a pure view of its numbers and draws nothing else."""
