"""Other people's formats to documents: PDF, images through OCR, text, and OCR services' output."""

from hushdoc.reading.azure_read import from_azure_read
from hushdoc.reading.docling import from_docling
from hushdoc.reading.doctr import from_doctr
from hushdoc.reading.document_ai import from_document_ai
from hushdoc.reading.hocr import from_hocr
from hushdoc.reading.layout import in_reading_order, reading_order, with_segments
from hushdoc.reading.ocr import OCRCache, OCREngine
from hushdoc.reading.opening import open_document, page_image
from hushdoc.reading.rapidocr import RapidOCREngine, from_rapidocr
from hushdoc.reading.tesseract import TesseractEngine
from hushdoc.reading.tesseract_tsv import from_tesseract_tsv
from hushdoc.reading.textract import from_textract
from hushdoc.reading_terms import ENGINES, FORMATS, ReadingLimits, ReadingWarning, Source

__all__ = [
    "ENGINES",
    "FORMATS",
    "OCRCache",
    "OCREngine",
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
