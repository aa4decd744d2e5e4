"""Chromium without a window, for tests of pages: the page's body after its scripts have run."""

import shutil
import subprocess

import pytest

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium to draw the page")


def drawn(address: str, page_milliseconds: int, *options: str, timeout_seconds: float = 120) -> str:
    """The body's HTML when the page's own clock has passed `page_milliseconds`. AssertionError: the page's console got a line."""
    line = [str(BROWSER), *OPTIONS, f"--virtual-time-budget={page_milliseconds}", *options, address]
    done = subprocess.run(line, capture_output=True, text=True, timeout=timeout_seconds, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout[done.stdout.index("<body") :]
