"""Readers: PDF, images through OCR, text and the output of OCR services to documents."""

from hushdoc.document.limits import ReadingLimits
from hushdoc.document.provenance import ENGINES, FORMATS, READERS, ReadingWarning, Source
from hushdoc.reading.adapters.azure_read import from_azure_read
from hushdoc.reading.adapters.docling import from_docling
from hushdoc.reading.adapters.doctr import from_doctr
from hushdoc.reading.adapters.document_ai import from_document_ai
from hushdoc.reading.adapters.hocr import from_hocr
from hushdoc.reading.adapters.tesseract_tsv import from_tesseract_tsv
from hushdoc.reading.adapters.textract import from_textract
from hushdoc.reading.drawing import page_image
from hushdoc.reading.layout import in_reading_order, reading_order, with_segments
from hushdoc.reading.ocr import OCRCache, OCREngine
from hushdoc.reading.opening import open_document
from hushdoc.reading.rapidocr import RapidOCREngine, from_rapidocr
from hushdoc.reading.tesseract import TesseractEngine

__all__ = [
    "ENGINES",
    "FORMATS",
    "OCRCache",
    "OCREngine",
    "READERS",
    "RapidOCREngine",
    "ReadingLimits",
    "ReadingWarning",
    "Source",
    "TesseractEngine",
    "from_azure_read",
    "from_docling",
    "from_doctr",
    "from_document_ai",
    "from_hocr",
    "from_rapidocr",
    "from_tesseract_tsv",
    "from_textract",
    "in_reading_order",
    "open_document",
    "page_image",
    "reading_order",
    "with_segments",
]
