"""Views of documents and answers: overlays, web pages, hOCR and redaction."""
