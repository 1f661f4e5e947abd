"""Runs drivers in processes that are forked from one that imports torch once for all of them.

    python launcher.py

Reads lines `PROCESSES DRIVER FOLDER ARGUMENTS...`, calls the driver's `main(folder, rank,
*arguments)` in so many processes, and answers `ok` when all have ended well. Several meet by a file
in FOLDER, over gloo, as on any machine without GPUs. What one raises goes to FOLDER/rank<n>.log.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from pathlib import Path

import distributed_driver  # noqa: F401  # once, before the forks
import run_kill_driver  # noqa: F401
import sharded_driver  # noqa: F401
import shared_run_driver  # noqa: F401
import torch
import torch._dynamo
from torch.distributed import fsdp  # noqa: F401


def child(size: int, rank: int, driver: str, folder: Path, arguments: list[str]) -> None:
    status = 1
    try:
        torch.set_num_threads(1)
        if size > 1:
            torch.distributed.init_process_group(
                "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=size
            )
        importlib.import_module(driver).main(folder, rank, *arguments)
        status = 0
    except BaseException:
        (folder / f"rank{rank}.log").write_text(traceback.format_exc())
    os._exit(status)  # threads of gloo's that wake while the interpreter ends would abort it


def run(size: int, driver: str, folder: Path, arguments: list[str]) -> str:
    processes = []
    for rank in range(size):
        process = os.fork()
        if not process:
            child(size, rank, driver, folder, arguments)
        processes.append(process)
    failed = False
    for _ in range(size):
        _, status = os.wait()
        if status and not failed:  # the other one would wait for it
            failed = True
            for process in processes:
                os.kill(process, signal.SIGKILL)
    return "failed" if failed else "ok"


def main() -> None:
    for line in sys.stdin:
        size, driver, folder, *arguments = line.rstrip("\n").split("\t")
        print(run(int(size), driver, Path(folder), arguments), flush=True)


if __name__ == "__main__":
    main()
