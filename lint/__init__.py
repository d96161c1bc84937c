"""Finds, prices and proves the device memory that hand-written PTX costs, before it ships."""

__version__ = "0.1.0"
