"""InventedConfig: which documents to invent, by which providers, how noisy and how labelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

DOCUMENT_TYPES = ("form", "invoice", "receipt")

LAYOUTS: Mapping[str, tuple[str, ...]] = {
    "form": (
        "application",
        "authorization",
        "data_sheet",
        "fax",
        "grid",
        "laboratory",
        "memo",
        "notice",
        "order",
        "patchwork",
        "proposal",
        "report",
        "survey",
        "tick_boxes",
    ),
    "invoice": ("banner", "classic", "letter", "ruled", "sidebar", "typewritten"),
    "receipt": ("narrow", "restaurant", "slip", "supermarket"),
}
"""The layout families of every document type."""

FORM_LABELS = ("answer", "header", "question")

FIELD_LABELS = (
    "customer_address",
    "customer_name",
    "date",
    "document_number",
    "due_date",
    "iban",
    "item_amount",
    "item_description",
    "item_price",
    "item_quantity",
    "phone",
    "provider_address",
    "provider_name",
    "subtotal",
    "tax",
    "tax_id",
    "total",
)

NUM_PROVIDERS = 32_000
"""How many different providers there are, numbered from 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InventedConfig:
    """What to invent; configs with disjoint ranges of providers share no provider's name.

    Attributes:
        document_types: Any of "form", "invoice" and "receipt".
        providers: The first provider's number and the one after the last.
        layouts: Layout families to draw from, by name; None for all. A type of which none is
            named keeps all of its own.
        labels: "fields" for the field a text holds (FIELD_LABELS), "form" for its part in a form
            (FORM_LABELS). The page itself is the same under both.
        misspelled: Share of words that OCR misreads, on an average document.
        jitter_pixels: How far a box edge may be off, on the worst document.
        skew_degrees: How far a scanned page may be turned, at worst.

    Example:
        >>> InventedConfig(document_types=("receipt",), layouts=("slip",)).families("receipt")
        ('slip',)
    """

    document_types: tuple[str, ...] = DOCUMENT_TYPES
    providers: tuple[int, int] = (0, 800)
    layouts: tuple[str, ...] | None = None
    labels: Literal["fields", "form"] = "fields"
    misspelled: float = 0.02
    jitter_pixels: float = 1.5
    skew_degrees: float = 0.7

    def __post_init__(self) -> None:
        """Raises ValueError where no document could be invented."""
        if not self.document_types or not set(self.document_types) <= set(DOCUMENT_TYPES):
            known_types = ", ".join(DOCUMENT_TYPES)
            raise ValueError(
                f"document_types is {self.document_types!r}; expected some of {known_types}."
            )
        first, stop = self.providers
        if not 0 <= first < stop <= NUM_PROVIDERS:
            raise ValueError(
                f"providers is {self.providers!r}; expected 0 <= first < stop <= {NUM_PROVIDERS}."
            )
        known = {name for names in LAYOUTS.values() for name in names}
        if self.layouts is not None and (not self.layouts or not set(self.layouts) <= known):
            raise ValueError(
                f"layouts is {self.layouts!r}; expected some of {', '.join(sorted(known))}."
            )
        if self.labels not in ("fields", "form"):
            raise ValueError(f"labels is {self.labels!r}; expected 'fields' or 'form'.")
        if not 0 <= self.misspelled <= 0.5:
            raise ValueError(f"misspelled is {self.misspelled}; expected a share from 0 to 0.5.")
        if not (0 <= self.jitter_pixels <= 20 and 0 <= self.skew_degrees <= 5):
            raise ValueError(
                f"jitter_pixels is {self.jitter_pixels} and skew_degrees {self.skew_degrees}; "
                "expected 0 to 20 and 0 to 5."
            )

    def families(self, document_type: str) -> tuple[str, ...]:
        """Returns the layout families that documents of this type are drawn from."""
        own = LAYOUTS[document_type]
        if self.layouts is None:
            return own
        return tuple(name for name in own if name in self.layouts) or own
