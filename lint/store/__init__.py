"""The store of runs: findings with their history, reviews, kernels and probe results in one SQLite file."""
