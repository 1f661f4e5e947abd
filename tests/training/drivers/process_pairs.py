"""Runs drivers in pairs of processes, forked from one that imports torch once for all of them.

    python process_pairs.py

Reads lines `DRIVER FOLDER ARGUMENTS...`, calls the driver's `main(folder, rank, *arguments)` in two
processes that meet by a file in FOLDER, over gloo, as on any machine without GPUs, and answers `ok`
when both have ended well. What a process raises goes to FOLDER/rank<n>.log.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from pathlib import Path

import distributed_driver  # noqa: F401  # once, before the forks
import sharded_driver  # noqa: F401
import shared_run_driver  # noqa: F401
import torch
import torch._dynamo
from torch.distributed import fsdp  # noqa: F401

SIZE = 2


def child(driver: str, folder: Path, rank: int, arguments: list[str]) -> None:
    status = 1
    try:
        torch.set_num_threads(1)
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=SIZE
        )
        importlib.import_module(driver).main(folder, rank, *arguments)
        status = 0
    except BaseException:
        (folder / f"rank{rank}.log").write_text(traceback.format_exc())
    os._exit(status)  # threads of gloo's that wake while the interpreter ends would abort it


def run(driver: str, folder: Path, arguments: list[str]) -> str:
    processes = []
    for rank in range(SIZE):
        process = os.fork()
        if not process:
            child(driver, folder, rank, arguments)
        processes.append(process)
    failed = False
    for _ in range(SIZE):
        _, status = os.wait()
        if status and not failed:  # the other one would wait for it
            failed = True
            for process in processes:
                os.kill(process, signal.SIGKILL)
    return "failed" if failed else "ok"


def main() -> None:
    for line in sys.stdin:
        driver, folder, *arguments = line.rstrip("\n").split("\t")
        print(run(driver, Path(folder), arguments), flush=True)


if __name__ == "__main__":
    main()
