"""What a forked process does."""

from __future__ import annotations

import os
import signal
import traceback


def in_child(check):
    """Fork, call `check` in the child, and return its exit status there: zero if it returned within 20 seconds.

    No operation of torch in `check` that takes threads: those of the parent stayed behind.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest-timeout's would wait for native code to return
            signal.alarm(20)
            check()
            status = 0
        except BaseException:  # noqa: BLE001 - the child must not go on with the tests
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
