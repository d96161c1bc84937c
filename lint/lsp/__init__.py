"""The language server: findings while typing, hover, repairs and jumps, over any editor's LSP client."""
