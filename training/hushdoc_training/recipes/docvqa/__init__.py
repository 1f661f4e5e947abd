"""Questions about documents: models that point at answers, trained with privacy or without."""
