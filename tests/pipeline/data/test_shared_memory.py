"""Memory of tensors that torch moves: what was made before reads it where it is; processes share one copy."""

import threading

from headrace.pipeline.data.shared_memory import Readers


def test_memory_is_not_moved_under_readers():
    readers, order = Readers(), []
    readers.enter()

    def mover():
        with readers.moving():
            order.append("moved")

    thread = threading.Thread(target=mover)
    thread.start()
    thread.join(0.1)
    order.append("read")
    readers.leave()
    thread.join()
    readers.enter()
    assert order == ["read", "moved"]
