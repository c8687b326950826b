"""Programs that begin with headrace imported: in copies of a process that has done nothing else.

To import torch and headrace takes seconds, a copy milliseconds. What a copy runs is its main module, from whose end on
it does what any process does when Python ends. All copies have the same seed of hashes, though, and one thread for
torch; what looks at that, or at the order of imports, wants a process of its own.

A process that has imported more is itself a copy, of the one that has imported all but the last module.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

#: What programs may begin with: torch, all that `import headrace` promises, PyG and the loaders with its names.
TORCH = ("torch", "torchdata.nodes")
HEADRACE = (*TORCH, "headrace.pipeline.public")
PYG = (*HEADRACE, "headrace.pyg")

#: Threads that ask at the same time are given copies of the same process, too.
_LOCK = threading.Lock()


class Process:
    """A program in a copy, much as `subprocess.Popen` shows one.

    Parameters
    ----------
    program
        The text of a program, or where it is.
    arguments
        Its arguments.
    environment
        Its environment, where it is not that of this process.
    imports
        What has been imported. Whoever asks for the same is given copies of the same process.
    """

    def __init__(
        self,
        program: str | Path,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        imports: tuple[str, ...] = HEADRACE,
    ) -> None:
        self._files = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115 - wait() closes them
        self._printed: list[str] = []
        self._socket, answers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        is_path = isinstance(program, Path)
        order = {
            "path": str(program) if is_path else None,
            "text": program.read_text() if is_path else program,
            "arguments": list(map(str, arguments)),
            "folder": str(Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
        }
        files = [answers.fileno(), *(file.fileno() for file in self._files)]
        with answers, _LOCK:
            socket.send_fds(_server(imports), [json.dumps(order).encode()], files)
        self.pid = int(self._socket.recv(64))
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return how it has ended, negative for a signal."""
        if self.returncode is None:
            self._socket.settimeout(timeout)
            try:
                self.returncode = int(self._socket.recv(64))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from None
            self._socket.close()
            for file in self._files:
                file.seek(0)
                self._printed.append(file.read())
                file.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return how it has ended, or None."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait, and return what it has printed and what errors."""
        self.wait(timeout)
        output, errors = self._printed
        return output, errors

    def printed(self) -> str:
        """Return what it has printed so far, while it runs."""
        return os.pread(self._files[0].fileno(), 1 << 20, 0).decode()

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)
        self.wait()


def run_program(
    program: str | Path, *arguments: object, timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, much as `subprocess.run` does; `options` are those of `Process`."""
    process = Process(program, *arguments, **options)
    try:
        output, errors = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess([str(program), *map(str, arguments)], process.wait(), output, errors)


@cache
def _server(imports: tuple[str, ...]) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    *before, last = imports
    if before:
        with theirs:
            order = json.dumps({"import": last}).encode()
            socket.send_fds(_server(tuple(before)), [order], [theirs.fileno()])
        return ours
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), last],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


def _serve(requests: socket.socket) -> tuple[dict, list[int]]:
    """Make a copy for each order. Return in copies alone: their order, and where they write output and errors."""
    while True:
        message, files, *_ = socket.recv_fds(requests, 1 << 20, 3)
        if not message:
            os._exit(0)
        order = json.loads(message)
        if "import" in order:
            if os.fork() == 0:
                requests.close()
                requests = socket.socket(fileno=files[0])
                _import(order["import"])
            else:
                os.close(files[0])
            continue
        if os.fork() == 0:  # waits for the copy while others are ordered
            requests.close()
            answers = socket.socket(fileno=files[0])
            copy = os.fork()
            if copy == 0:
                answers.close()
                return order, files[1:]
            for file in files[1:]:
                os.close(file)
            answers.send(str(copy).encode())
            status = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
            answers.send(str(status).encode())
            os._exit(0)
        for file in files:
            os.close(file)
        while _ended():
            pass


def _import(name: str) -> None:
    with contextlib.suppress(ImportError):  # old versions have less; what needs it says so
        importlib.import_module(name)  # and no gc.freeze(), with which modules would end in another order


def _ended() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _become(order: dict, files: list[int]) -> None:
    """Run the program as the main module."""
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which whoever runs the tests may ignore
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    warnings._processoptions(filter(None, os.environ.get("PYTHONWARNINGS", "").split(",")))
    sys.argv = [order["path"] or "-c", *order["arguments"]]
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if order["path"] is not None and "PYTHONSAFEPATH" not in os.environ:
        folders.insert(0, str(Path(order["path"]).parent))
    sys.path[:0] = filter(None, folders)
    code = compile(order["text"], order["path"] or "<string>", "exec")
    main = globals()
    begin = {"__name__": "__main__", "__spec__": None, "__builtins__": main["__builtins__"]}
    if order["path"] is not None:  # otherwise there is none, as with ``python -c``
        begin["__file__"] = order["path"]
    main.clear()
    main.update(begin)
    exec(code, main)  # noqa: S102 - it is a program


if __name__ == "__main__":
    _import(sys.argv[2])
    _become(*_serve(socket.socket(fileno=int(sys.argv[1]))))
