"""Label sets: what published corpora call the fields of invented documents.

A set names the label of each field that its corpus annotates; what it does not name is outside of
all fields. "field.key" is the text that asks for a field, such as "Total:", where a corpus labels
such texts too. Names are those of PrIeD-KIE (table 5), as the corpora's own files spell them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hushdoc.document.page import Word
from hushdoc.labels import Span
from hushdoc_training.invented.sheet import NOTHING, Segment

FIELDS, FORM = "fields", "form"
"""The generator's own sets: the field that a text holds, and its part in a form."""

CORPORA: Mapping[str, Mapping[str, str]] = {
    "cord": {
        "item_description": "menu.nm",
        "item_code": "menu.num",
        "item_price": "menu.unitprice",
        "item_quantity": "menu.cnt",
        "item_discount": "menu.discountprice",
        "item_amount": "menu.price",
        "item_tax_code": "menu.vatyn",
        "item_modifier": "menu.sub_nm",
        "item_modifier_amount": "menu.sub_price",
        "subtotal": "sub_total.subtotal_price",
        "discount": "sub_total.discount_price",
        "service_charge": "sub_total.service_price",
        "tax": "sub_total.tax_price",
        "rounding": "sub_total.etc",
        "total": "total.total_price",
        "cash": "total.cashprice",
        "change": "total.changeprice",
        "card_payment": "total.creditcardprice",
        "wallet_payment": "total.emoneyprice",
        "num_items": "total.menutype_cnt",
        "num_quantity": "total.menuqty_cnt",
    },
    "docile": {
        "provider_name": "vendor_name",
        "provider_address": "vendor_address",
        "registration_number": "vendor_registration_id",
        "tax_id": "vendor_tax_id",
        "email": "vendor_email",
        "customer_id": "customer_id",
        "customer_order": "customer_order_id",
        "payment_terms": "payment_terms",
        "customer_name": "customer_billing_name",
        "customer_address": "customer_billing_address",
        "document_number": "document_id",
        "date": "date_issue",
        "due_date": "date_due",
        "subtotal": "amount_total_net",
        "tax": "amount_total_tax",
        "total": "amount_total_gross",
        "iban": "iban",
    },
    "sroie": {
        "provider_name": "company",
        "provider_address": "address",
        "date": "date",
        "total": "total",
    },
    "wildreceipt": {
        "provider_name": "store_name.value",
        "provider_address": "store_addr.value",
        "phone": "tel.value",
        "phone.key": "tel.key",
        "date": "date.value",
        "date.key": "date.key",
        "time": "time.value",
        "time.key": "time.key",
        "item_description": "prod.item.value",
        "item_description.key": "prod.item.key",
        "item_quantity": "prod.quantity.value",
        "item_quantity.key": "prod.quantity.key",
        "item_amount": "prod.price.value",
        "item_amount.key": "prod.price.key",
        "subtotal": "subtotal.value",
        "subtotal.key": "subtotal.key",
        "tax": "tax.value",
        "tax.key": "tax.key",
        "tip": "tips.value",
        "tip.key": "tips.key",
        "total": "total.value",
        "total.key": "total.key",
    },
}

OF_CORPORA = frozenset({"customer_id", "customer_order", "email", "item_tax_code", "payment_terms"})
"""Fields that corpora alone have: under the generator's own labels they are outside of all."""

BY_LINE = frozenset({"wildreceipt"})
"""Corpora in which every line of a field is a field of its own."""

LABEL_SETS = (FIELDS, FORM, *CORPORA)


def label_of(name: str, segment: Segment, key_of: str | None) -> str | None:
    """Returns a text's label in a set; key_of is the field that the text asks for, if any."""
    if name == FORM:
        return segment.role
    if name == FIELDS:
        own = segment.role != "question" and segment.field not in OF_CORPORA
        return segment.field if own else None
    labels = CORPORA[name]
    if key_of is not None:
        return labels.get(f"{key_of}.key")
    return labels.get(segment.field or "")


def keys(segments: Sequence[Segment], pairs: Sequence[tuple[int, int]]) -> dict[int, str | None]:
    """Returns for each text that asks for others the field that it asks for first."""
    asked = {
        question: segments[answer].field
        for question, answer in reversed(pairs)
        if answer != NOTHING
    }
    heads = {number: item.field for number, item in enumerate(segments) if item.role == "question"}
    return {number: asked.get(number, field) for number, field in heads.items()}


def by_line(spans: Sequence[Span], words: Sequence[Word]) -> tuple[Span, ...]:
    """Returns a span for each segment of words that a span covers."""
    parts: list[Span] = []
    for span in spans:
        start = span.start
        for place in range(span.start + 1, span.stop + 1):
            if place == span.stop or words[place].segment != words[start].segment:
                parts.append(replace(span, start=start, stop=place))
                start = place
    return tuple(parts)
