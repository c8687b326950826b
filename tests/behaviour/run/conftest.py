"""Every test of running loaders leaves no thread behind."""

from workers import no_thread_is_left  # noqa: F401 - a fixture
