"""Compiled-code witnesses: containers, fatbins, cubins, source lines, driver declarations."""
