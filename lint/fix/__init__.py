"""Fixes: how a copy is respelled, which edits are made together, and how files are replaced."""
