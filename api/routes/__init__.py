"""The routes: one resource per file, each handler with its row; ``table`` collects them."""
