"""Routes about entities: their names, neighbours, cards, and searching for them."""
