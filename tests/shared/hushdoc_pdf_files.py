"""Writes small PDF files by hand: pages, rotation, crops, forms, encryption, loops."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

PAD = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
FONT = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def shown(text: str, *, x: float = 72, y: float = 700, size: float = 24) -> bytes:
    """Returns the operators that write a line."""
    return f"BT /F1 {size} Tf {x} {y} Td ({text}) Tj ET\n".encode("latin-1")


def file(
    contents: Sequence[bytes],
    *,
    box: str = "[0 0 612 792]",
    extra: str = "",
    catalog: str = "",
    tree: str = "",
    objects: Sequence[bytes] = (),
    shows: str = "",
    password: str | None = None,
    packed: bool = False,
) -> bytes:
    """Returns a PDF file with a page for each content stream.

    Args:
        contents: The pages' content streams.
        box: Their MediaBox.
        extra: More entries of every page, such as "/Rotate 90".
        catalog: More entries of the catalog.
        tree: More entries of the root of the page tree.
        objects: More objects; the first is number 10 + 2 * pages.
        shows: More resources of every page, such as "/XObject << /Im1 12 0 R >>".
        password: Encrypts the file (RC4, 40 bits) for this password.
        packed: Puts all objects but streams into one stream.
    """
    first = 10
    pages = [first + 2 * number for number in range(len(contents))]
    bodies: dict[int, bytes] = {
        1: f"<< /Type /Catalog /Pages 2 0 R {catalog} >>".encode(),
        2: (
            f"<< /Type /Pages /Kids [{' '.join(f'{number} 0 R' for number in pages)}] "
            f"/Count {len(pages)} {tree} >>"
        ).encode(),
        3: FONT.encode(),
    }
    file_id = hashlib.md5(b"hushdoc").digest()  # noqa: S324 - what the format asks for
    key = None if password is None else _key(password.encode(), file_id)
    for number, content in zip(pages, contents, strict=True):
        bodies[number] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox {box} /Contents {number + 1} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> {shows} >> {extra} >>"
        ).encode()
        stream = content if key is None else _rc4(_object_key(key, number + 1), content)
        bodies[number + 1] = (
            f"<< /Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream"
        )
    for number, body in enumerate(objects, start=first + 2 * len(contents)):
        bodies[number] = body
    trailer = ""
    if key is not None and password is not None:
        owner = _owner(password.encode())
        user = _rc4(key, PAD)
        bodies[4] = (
            f"<< /Filter /Standard /V 1 /R 2 /O <{owner.hex()}> /U <{user.hex()}> /P -4 >>"
        ).encode()
        trailer = f"/Encrypt 4 0 R /ID [<{file_id.hex()}> <{file_id.hex()}>]"
    return _packed(bodies, trailer, key) if packed else _assembled(bodies, trailer)


def image(width: int, height: int, pixels: bytes) -> bytes:
    """Returns the object of a grey image."""
    return (
        (
            b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray "
            b"/BitsPerComponent 8 /Length %d >>\nstream\n" % (width, height, len(pixels))
        )
        + pixels
        + b"\nendstream"
    )


def form(content: bytes, *, matrix: str, resources: str) -> bytes:
    """Returns the object of a form: content that pages and other forms draw."""
    head = (
        f"<< /Type /XObject /Subtype /Form /BBox [0 0 1000 1000] /Matrix {matrix} "
        f"/Resources << {resources} >> /Length {len(content)} >>\nstream\n"
    )
    return head.encode() + content + b"\nendstream"


def nested_forms(depth: int, times: int) -> bytes:
    """Returns a small file whose page draws a form, which draws another so many times, and on."""
    first = 12
    draw = b"/F Do\n" * times
    innermost = form(shown("a"), matrix="[1 0 0 1 0 0]", resources="/Font << /F1 3 0 R >>")
    forms = [
        form(draw, matrix="[1 0 0 1 0 0]", resources=f"/XObject << /F {first + level} 0 R >>")
        for level in range(1, depth)
    ]
    shows = f"/XObject << /F {first} 0 R >>"
    return file([draw], shows=shows, objects=[*forms, innermost])


def strips(number: int, *, size: tuple[int, int], top: int, height: int) -> bytes:
    """Returns the operators that draw image /Im1 again and again, strip below strip.

    Args:
        number: Of strips.
        size: Of the page.
        top: Where the first begins, from the page's bottom.
        height: Of all of them.
    """
    each = height / number
    places = (top - each * (place + 1) for place in range(number))
    return b"".join(b"q %d 0 0 %f 0 %f cm /Im1 Do Q\n" % (size[0], each, y) for y in places)


def _assembled(bodies: dict[int, bytes], trailer: str) -> bytes:
    out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places = {}
    for number, body in sorted(bodies.items()):
        places[number] = len(out)
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    start = len(out)
    size = max(bodies) + 1
    out += f"xref\n0 {size}\n".encode()
    for number in range(size):
        if number in places:
            out += f"{places[number]:010d} 00000 n \n".encode()
        else:
            out += b"0000000000 65535 f \n"
    out += f"trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\n".encode()
    out += f"startxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def _packed(bodies: dict[int, bytes], trailer: str, key: bytes | None) -> bytes:
    """Returns a file whose objects are in a stream of objects, and its table in a stream too."""
    inside = {
        number: body
        for number, body in sorted(bodies.items())
        if not body.endswith(b"endstream") and b"/Standard" not in body
    }
    holder, table = max(bodies) + 1, max(bodies) + 2
    heads, content = [], b""
    for number, body in inside.items():
        heads.append(f"{number} {len(content)}")
        content += body + b" "
    first = " ".join(heads).encode() + b" "
    stream = first + content if key is None else _rc4(_object_key(key, holder), first + content)
    head = f"<< /Type /ObjStm /N {len(inside)} /First {len(first)} /Length {len(stream)} >>"
    outside = {number: body for number, body in bodies.items() if number not in inside}
    outside[holder] = head.encode() + b"\nstream\n" + stream + b"\nendstream"
    out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    rows = {0: (0, 0, 65535)} | {number: (2, holder, index) for index, number in enumerate(inside)}
    for number, body in sorted(outside.items()):
        rows[number] = (1, len(out), 0)
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    start = len(out)
    rows[table] = (1, start, 0)
    cells = b"".join(
        kind.to_bytes(1, "big") + where.to_bytes(4, "big") + last.to_bytes(2, "big")
        for kind, where, last in (rows.get(number, (0, 0, 0)) for number in range(table + 1))
    )
    head = f"<< /Type /XRef /Size {table + 1} /W [1 4 2] /Root 1 0 R {trailer}"
    out += f"{table} 0 obj\n{head} /Length {len(cells)} >>\nstream\n".encode() + cells
    return bytes(out + f"\nendstream\nendobj\nstartxref\n{start}\n%%EOF\n".encode())


def _owner(password: bytes) -> bytes:
    padded = (password + PAD)[:32]
    return _rc4(hashlib.md5(padded).digest()[:5], padded)  # noqa: S324


def _key(password: bytes, file_id: bytes) -> bytes:
    parts = (password + PAD)[:32] + _owner(password) + (-4 & 0xFFFFFFFF).to_bytes(4, "little")
    return hashlib.md5(parts + file_id).digest()[:5]  # noqa: S324


def _object_key(key: bytes, number: int) -> bytes:
    material = key + number.to_bytes(3, "little") + b"\x00\x00"
    return hashlib.md5(material).digest()[:10]  # noqa: S324


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out = bytearray()
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)
