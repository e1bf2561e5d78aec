"""From candidates to the packed list: fusion, scores, diversity, budget."""
