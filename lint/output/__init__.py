"""Output formats, one a file, behind one signature."""
