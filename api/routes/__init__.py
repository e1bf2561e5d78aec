"""The routes: one resource a file, each handler with its row; ``table`` collects them."""
