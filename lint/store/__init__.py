"""Runs with their findings, kernels and measurements, kept in a database."""
