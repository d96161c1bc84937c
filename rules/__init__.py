"""One rule a file: what it finds, why it matters, examples, and its check."""
