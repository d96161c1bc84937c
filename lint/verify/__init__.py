"""Fixes before the assembler: the same statement in both spellings, target by target."""
