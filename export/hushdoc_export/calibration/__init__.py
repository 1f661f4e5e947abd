"""Calibration: what an artifact's scores are worth, measured on documents nobody has to protect."""

from hushdoc_export.calibration.answers import (
    class_answers,
    field_answers,
    question_answers,
    text_answers,
    whole_text_answers,
)
from hushdoc_export.calibration.artifacts import (
    INVENTED,
    export_calibrated,
    export_calibrated_on_invented,
    export_calibrated_table,
)
from hushdoc_export.calibration.fitting import (
    MIN_ANSWERS,
    THRESHOLD,
    Answers,
    calibration_error,
    curve,
    fit,
    scored,
    temperature,
)

__all__ = [
    "INVENTED",
    "MIN_ANSWERS",
    "THRESHOLD",
    "Answers",
    "calibration_error",
    "curve",
    "export_calibrated",
    "export_calibrated_on_invented",
    "export_calibrated_table",
    "field_answers",
    "fit",
    "class_answers",
    "question_answers",
    "scored",
    "temperature",
    "text_answers",
    "whole_text_answers",
]
