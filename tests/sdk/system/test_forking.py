"""Forks while other threads read and answer: the new process does too, or says why not."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import hushdoc_graphs as graphs
import hushdoc_pdf_files as pdfs
import pytest
from hushdoc_processes import interpreter

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="systems with fork")

PATIENCE = 120
"""A program that takes so many seconds has hung."""

START = """
import asyncio, atexit, gc, io, multiprocessing, os, sys, threading, time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
import numpy as np
import hushdoc
from hushdoc import HushdocError, Runtime, open_document
from hushdoc.reading import OCRCache
from hushdoc.runtime.session import Session
from hushdoc.system import forking

content = Path(sys.argv[1]).read_bytes()
graph = Path(sys.argv[2]).read_bytes()
endless = sys.argv[3]

def words(number=0):
    return open_document(content).num_words

def always(what):
    def loop():
        while True:
            what()
    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    time.sleep(.1)

def ends(code):
    pid = os.fork()
    if pid == 0:
        import signal
        signal.alarm(60)  # a child that hangs is a failure, not a test that hangs
        code()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

READING = """
always(words)
print([ends(lambda: words() == 2 or os._exit(3)) for _ in range(12)] == [0] * 12)
os._exit(0)
"""

LOADING = """
threading.Thread(target=words, daemon=True).start()
while "pypdfium2" not in sys.modules:  # until the other thread is importing it
    time.sleep(.0005)
print(ends(lambda: words() == 2 or os._exit(3)), flush=True)
os._exit(0)
"""

IMPORTING = """
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "hushdoc.runtime.kie":
            begun.set()
            time.sleep(.5)
begun = threading.Event()
sys.meta_path.insert(0, Slow())
threading.Thread(target=lambda: hushdoc.KIEModel, daemon=True).start()
begun.wait()
print(ends(lambda: hushdoc.KIEModel), flush=True)
os._exit(0)
"""

RUNNING = """
session = Session(graph, runtime=Runtime(threads=2))
x = {"x": np.full((300, 300), .01, np.float32)}
expected = session.run(x)[0]
def run():
    if not np.array_equal(session.run(x)[0], expected):
        os._exit(3)
always(run)
always(run)
print([ends(run) for _ in range(12)] == [0] * 12, flush=True)

def fresh():
    # A model of its own, the other one dropped, and an end as programs end.
    global session
    session = Session(graph, runtime=Runtime(threads=2))
    gc.collect()
    run()
    try:
        sys.exit(0)
    finally:
        atexit._run_exitfuncs()
print([ends(fresh) for _ in range(3)] == [0] * 3, flush=True)
os._exit(0)
"""

TORN = """
forking.WAIT_SECONDS = .2
words()  # imports what the other thread would still import
threading.Thread(target=open_document, args=(endless,), daemon=True).start()
while not forking._gate.inside:
    time.sleep(.01)
time.sleep(.3)
def torn():
    try:
        words()
    except HushdocError as error:
        if error.code == "FORKED_IN_USE" and "PDFium" in str(error):
            if open_document(content, reader="process").num_words == 2:
                os._exit(7)
print(ends(torn))
os._exit(0)
"""

NESTED = """
lock, other = forking.Lock(), forking.Lock("native code")
def inside():
    with lock, other:
        pass
with lock, other:  # by the forking thread itself: it goes on in both
    code = ends(lambda: inside() or os._exit(5))
with lock, forking.native("native code"):
    inside()
holds, free = threading.Event(), threading.Event()
def hold():
    with lock:
        holds.set()
        free.wait()
threading.Thread(target=hold, daemon=True).start()
holds.wait()
print(code, ends(inside))
free.set()
inside()
"""

POOLS = """
def main():
    always(words)
    for method in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(words, range(4)), flush=True)
    with ProcessPoolExecutor(2, multiprocessing.get_context("forkserver")) as pool:
        print(list(pool.map(words, range(2))))

    async def side_by_side():
        kept = [asyncio.to_thread(partial(open_document, content, reader="process")) for _ in "ab"]
        return [document.num_words for document in await asyncio.gather(*kept)]
    print(asyncio.run(side_by_side()), flush=True)

if __name__ == "__main__":
    main()
    os._exit(0)
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Returns a PDF file of two words, a graph, and a file that PDFium reads for ever."""
    folder = tmp_path_factory.mktemp("forks")
    node = graphs.node("MatMul", ["x", "x"], "y")
    contents = {
        "two.pdf": pdfs.file([pdfs.shown("Total 12.50")]),
        "graph.onnx": graphs.model([node], {"x": ["n", "n"]}, {"y": ["n", "n"]}, {}, {}),
        "endless.pdf": pdfs.nested_forms(depth=12, times=10),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (READING, ["True"]),
        (LOADING, ["0"]),
        (IMPORTING, ["0"]),
        (RUNNING, ["True", "True"]),
        (TORN, ["7"]),
        (NESTED, ["5 0"]),
        (
            POOLS,
            [
                *(f"{method} [2, 2, 2, 2]" for method in multiprocessing.get_all_start_methods()),
                "[2, 2]",
                "[2, 2]",
            ],
        ),
    ],
    ids=["reading", "loading", "importing", "running", "torn", "nested", "pools"],
)
def test_a_fork_while_threads_work(
    inputs: list[Path], tmp_path: Path, program: str, said: list[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(START + program)
    ignored = ("-W", "ignore::DeprecationWarning")
    done = interpreter(*ignored, script, *inputs, check=False, timeout=PATIENCE)
    assert (done.stderr, done.stdout.splitlines()) == ("", said)
