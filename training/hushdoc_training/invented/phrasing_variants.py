"""Wordings: the many names that invoices have for the same few facts and columns."""

from __future__ import annotations

from collections.abc import Mapping

from hushdoc_training.invented.wordlist import terms

FACTS: Mapping[str, tuple[str, ...]] = {
    "number": terms(
        """
        Invoice No., Invoice number:, Inv #, Invoice #, Invoice no:, Our ref.:, Bill number:,
        Document no., INVOICE NO., No., Invoice ID, Rechnung Nr.
        """
    ),
    "date": terms(
        """
        Date, Invoice date:, Dated, Issued:, Date of issue, Invoice Date, DATE, Bill date:
        """
    ),
    "due": terms(
        """
        Due date, Payment due:, Due, Pay by:, Please pay by, Due on, DUE DATE, Payable until
        """
    ),
    "customer": (
        *terms("Bill to, Billed to:, Invoice to, Customer, Sold to:, Client, To:, BILL TO"),
        "",
        "",
    ),
    "total": terms(
        """
        Total, TOTAL DUE, Amount due, Grand total, Balance due, Invoice total, Total amount:,
        TOTAL, Please pay, Total payable
        """
    ),
    "subtotal": terms(
        """
        Subtotal, Sub-total, Net amount, Net total, Total excl. tax, Goods total, SUBTOTAL, Net
        """
    ),
    "tax_id": terms(
        """
        VAT No., Tax ID, VAT Reg. No., Tax number:, Fiscal code, Tax No.
        """
    ),
    "iban": terms(
        """
        IBAN, Account no., Bank account:, Account, Acct.
        """
    ),
    "phone": terms(
        """
        Tel., Phone, T:, Telephone, Phone:, Tel:
        """
    ),
    "title": terms(
        """
        INVOICE, Invoice, TAX INVOICE, BILL, Sales Invoice, Tax Invoice, STATEMENT OF CHARGES
        """
    ),
}  # fmt: skip

HEADS: Mapping[str, tuple[str, ...]] = {
    "item_description": terms(
        """
        Description, Item, Service, Details, Product, Particulars, Article
        """
    ),
    "item_quantity": terms(
        """
        Qty, Quantity, Qty., Units, Hours, No.
        """
    ),
    "item_price": terms(
        """
        Unit price, Price, Rate, Unit cost, Each, Price/unit
        """
    ),
    "item_amount": terms(
        """
        Amount, Total, Line total, Net, Sum, Value
        """
    ),
    "code": terms(
        """
        Code, Item no., SKU, Art. no., Ref.
        """
    ),
    "place": ("#", "Pos.", "Line"),
}  # fmt: skip
