"""Certificates as an HTML page, a model card, a CycloneDX ML-BOM and OpenDP registry entries."""
