"""InventedConfig: which documents to invent, by which providers, how noisy and how labelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hushdoc_training.invented import label_sets

DOCUMENT_TYPES = ("form", "invoice", "receipt")
"""The document types that are invented where none is named."""

TILL_RECEIPT = "till-receipt"
"""Receipts of tills in many countries: a type of its own, so that `receipt` stays as it is."""

KNOWN_TYPES = (*DOCUMENT_TYPES, TILL_RECEIPT)

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
    TILL_RECEIPT: ("card_slip", "columns", "guest_check", "lines"),
}
"""The layout families of every document type."""

FORM_LABELS = ("answer", "header", "question")

FIELD_LABELS = (
    "card_payment",
    "cash",
    "change",
    "customer_address",
    "customer_name",
    "date",
    "discount",
    "document_number",
    "due_date",
    "iban",
    "item_amount",
    "item_code",
    "item_description",
    "item_discount",
    "item_modifier",
    "item_modifier_amount",
    "item_price",
    "item_quantity",
    "num_items",
    "num_quantity",
    "phone",
    "provider_address",
    "provider_name",
    "registration_number",
    "rounding",
    "service_charge",
    "subtotal",
    "tax",
    "tax_id",
    "time",
    "tip",
    "total",
    "total_before_rounding",
    "wallet_payment",
)
"""The fields of all document types; many of them stand on receipts of tills alone."""

NUM_PROVIDERS = 32_000
"""How many different providers there are, numbered from 0."""

NUM_WORDINGS = 20
"""In how many wordings keyed questions ask for one thing."""

MOST_PAGES = 50
"""A document never has more pages."""

QUESTIONS = ("mixed", "keyed")
"""Kinds of questions: of all sorts, or with a key for what is asked and some without an answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InventedConfig:
    """What to invent; configs with disjoint ranges of providers share no provider's name.

    Attributes:
        document_types: Any of KNOWN_TYPES.
        providers: The first provider's number and the one after the last.
        layouts: Layout families to draw from, by name; None for all. A type of which none is
            named keeps all of its own.
        labels: One of `label_sets.LABEL_SETS`: "fields" for the field a text holds (FIELD_LABELS),
            "form" for its part in a form (FORM_LABELS), or a corpus for the labels that it would
            have there: "cord", "docile", "sroie" or "wildreceipt". The page is the same under all.
        misspelled: Share of words that OCR misreads, on an average document.
        jitter_pixels: How far a box edge may be off, on the worst document.
        skew_degrees: How far a scanned page may be turned, at worst.
        questions: One of QUESTIONS. With "keyed", questions about fields have a key and one of
            NUM_WORDINGS wordings, companies print their e-mail addresses and registration numbers,
            and some questions have no answer.
        wordings: The first wording of keyed questions and the one after the last; what quotes a
            label of the page is worded freely.
        unanswerable: About which share of keyed questions has no answer, from 0 to below 1.
        pages: The least and the largest number of pages of an invoice or a form; beyond the first
            they are covering letters and terms. Receipts have one.

    Example:
        >>> InventedConfig(document_types=("receipt",), layouts=("slip",)).families("receipt")
        ('slip',)
    """

    document_types: tuple[str, ...] = DOCUMENT_TYPES
    providers: tuple[int, int] = (0, 800)
    layouts: tuple[str, ...] | None = None
    labels: str = label_sets.FIELDS
    misspelled: float = 0.02
    jitter_pixels: float = 1.5
    skew_degrees: float = 0.7
    questions: str = "mixed"
    wordings: tuple[int, int] = (0, NUM_WORDINGS)
    unanswerable: float = 0.2
    pages: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        """Raises ValueError where no document could be invented."""
        if not self.document_types or not set(self.document_types) <= set(KNOWN_TYPES):
            known_types = ", ".join(KNOWN_TYPES)
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
        if self.labels not in label_sets.LABEL_SETS:
            known_sets = ", ".join(label_sets.LABEL_SETS)
            raise ValueError(f"labels is {self.labels!r}; expected one of {known_sets}.")
        if not 0 <= self.misspelled <= 0.5:
            raise ValueError(f"misspelled is {self.misspelled}; expected a share from 0 to 0.5.")
        if not (0 <= self.jitter_pixels <= 20 and 0 <= self.skew_degrees <= 5):
            raise ValueError(
                f"jitter_pixels is {self.jitter_pixels} and skew_degrees {self.skew_degrees}; "
                "expected 0 to 20 and 0 to 5."
            )
        if self.questions not in QUESTIONS:
            raise ValueError(
                f"questions is {self.questions!r}; expected one of {', '.join(QUESTIONS)}."
            )
        first, stop = self.wordings
        if not 0 <= first < stop <= NUM_WORDINGS:
            raise ValueError(
                f"wordings is {self.wordings!r}; expected 0 <= first < stop <= {NUM_WORDINGS}."
            )
        if not 0 <= self.unanswerable < 1:
            raise ValueError(
                f"unanswerable is {self.unanswerable}; expected a share from 0 to below 1."
            )
        least, most = self.pages
        if not 1 <= least <= most <= MOST_PAGES:
            raise ValueError(
                f"pages is {self.pages!r}; expected 1 <= least <= most <= {MOST_PAGES}."
            )

    def families(self, document_type: str) -> tuple[str, ...]:
        """Returns the layout families that documents of this type are drawn from."""
        own = LAYOUTS[document_type]
        if self.layouts is None:
            return own
        return tuple(name for name in own if name in self.layouts) or own
