"""Markup told apart from plain text by how it begins, as its marks would be read as words."""

from __future__ import annotations

import re

_MARKS = (
    ("HTML", "<!doctype html"),
    ("HTML", "<html"),
    ("XML", "<?"),
    ("XML", "<!doctype"),
    ("XML", "<!attlist "),
    ("XML", "<!element "),
    ("XML", "<!entity "),
    ("XML", "<!["),
    ("HTML or XML", "<!--"),
    ("PostScript", "%!ps"),
    ("PostScript", "%!\n"),
    ("PostScript", "%!\r"),
    ("RTF", "{\\rtf"),
)

_PRINT_JOB = re.compile(r"\s*+(?:\x1b%-12345X|@PJL)(?:\x1b%-12345X|@PJL[^\r\n]*+|\s)*+%!PS", re.I)
"""PostScript behind the header of a print job (HP, Printer Job Language Technical Reference)."""

_TAG = re.compile(r"\s*+<([A-Za-z][\w:.-]*+)((?:[\s/][^<>]*+)?)>")
_ATTRIBUTE = re.compile(r"(?:\s++[A-Za-z_:@][\w:.@-]*+)++\s*+=")
"""Attributes, of which one has a value: "<b 5 and a>" has none."""

_HTML_TAGS = re.compile(
    r"blockquote|body|br|col|colgroup|dd|div|dl|dt|fieldset|h[1-6]|head|hr|iframe|img|li|meta|nobr|"
    r"noscript|ol|p|pre|sub|sup|svg|tbody|td|textarea|tfoot|th|thead|tr|tt|ul|wbr"
)
"""Elements of HTML that no other text begins with; no end tag need follow."""

_HTML_WORDS = re.compile(
    r"[abiqsu]|abbr|address|area|article|aside|audio|base|big|button|caption|center|cite|code|del|"
    r"details|em|embed|figure|font|footer|form|frame|frameset|header|input|ins|kbd|label|legend|"
    r"link|main|map|mark|menu|nav|object|option|script|section|select|small|source|span|strike|"
    r"strong|style|summary|table|template|time|title|track|var|video"
)
"""Elements whose names stand in angle brackets as words or signs too, such as "<Mark> hi"."""


def kind(text: str) -> str | None:
    """Returns what kind of markup a text is; one that only begins with a bracket is none."""
    start = text.lstrip()[:4096]
    for name, mark in _MARKS:
        if start[: len(mark)].lower() == mark:
            return name
    if _PRINT_JOB.match(text) is not None:
        return "PostScript"
    tag = _TAG.match(text)
    return None if tag is None else _kind_of_tag(tag, text)


def _kind_of_tag(tag: re.Match[str], text: str) -> str | None:
    """Returns what a text is that begins with what may be a tag."""
    name, rest = tag[1].lower(), tag[2]
    whole = rest.endswith("/") and not text[tag.end() :].strip()
    valued = _ATTRIBUTE.match(rest) is not None
    alone = _HTML_TAGS.fullmatch(name) is not None
    if alone or _HTML_WORDS.fullmatch(name) is not None:
        sure = whole or valued or (alone and not rest.strip(" \t\r\n/"))
        return "HTML" if sure or f"</{name}" in text.lower() else None
    closed = whole or (valued and rest.endswith("/"))
    return "XML" if closed or f"</{tag[1]}" in text else None
