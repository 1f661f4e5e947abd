"""What reading in a process of its own costs: the same small files, here and there in turns.

    python benchmarks/reader_process.py [--quick]

    small_page_ratio, full_page_ratio   reader="process" / reader="here", CPU time of both
                                        processes, medians; a page of 30 words, and of 600
    small_page_extra_ms                 what the small page takes more, in CPU time
    start_ms                            what starting a reader process takes, in CPU time

Both answers are compared before anything is timed. Needs Linux, which counts the CPU time of
another process. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import machine

from hushdoc.reading import open_document, reader_process

SIZES = {"small_page": 30, "full_page": 600}


def file(num_words: int) -> bytes:
    """Returns a PDF file with a page of so many words, ten on a line."""
    lines = [
        " ".join(f"word{number}" for number in range(start, start + 10))
        for start in range(0, num_words, 10)
    ]
    shown = "".join(f"({line}) Tj 0 -12 Td\n" for line in lines)
    content = f"BT /F1 9 Tf 50 750 Td\n{shown}ET"
    bodies = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = "%PDF-1.7\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    rows = "".join(f"{place:010d} 00000 n \n" for place in places)
    table = f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{rows}"
    end = f"trailer\n<< /Size {len(bodies) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return (out + table + end).encode("ascii")


def cpu_seconds() -> float:
    """Returns the CPU time of this process and of its reader process, as the kernel counts it."""
    theirs = (
        int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
        for process in reader_process.running()
    )
    return time.process_time() + sum(theirs)


def measured(content: bytes, reader: str) -> float:
    """Returns the CPU time of reading a file, in milliseconds."""
    began = cpu_seconds()
    open_document(content, reader=reader)
    return 1000 * (cpu_seconds() - began)


def main() -> None:
    """Measures, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args().quick
    result: dict[str, object] = {"start_ms": round(measured(b"text", "process"), 1)}
    for name, size in SIZES.items():
        content = file(size)
        if open_document(content) != open_document(content, reader="process"):
            raise SystemExit(f"{name}: the answers differ.")
        rounds = [
            [measured(content, reader) for reader in ("here", "process")]
            for _ in range(30 if quick else 200)
        ]
        here, there = (statistics.median(column) for column in zip(*rounds, strict=True))
        result[f"{name}_ratio"] = round(there / here, 2)
        if name == "small_page":
            result["small_page_extra_ms"] = round(there - here, 2)
    print(
        json.dumps(
            {
                **result,
                "quick": quick,
                "machine": machine.description(),
                "date": f"{datetime.now(UTC):%F}",
            }
        )
    )


if __name__ == "__main__":
    main()
