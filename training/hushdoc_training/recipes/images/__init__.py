"""Classes of pages by their images, with differential privacy and without."""
