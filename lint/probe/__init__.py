"""Launches on a real card, each in a child process, that measure what a form or a frame costs."""
