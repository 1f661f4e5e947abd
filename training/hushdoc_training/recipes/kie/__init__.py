"""Key information extraction: layout models trained with privacy or without."""
