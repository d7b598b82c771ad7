from __future__ import annotations

import pytest

from fedonce import InputError
from fedonce.system import sizes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("800KB", 800_000),
        ("500MB", 5 * 10**8),
        ("4GB", 4 * 10**9),
        ("1.5 gb", 15 * 10**8),
        ("2tb", 2 * 10**12),
        ("7B", 7),
    ],
)
def test_sizes_as_people_write_them(text, count):
    assert sizes.size(text) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "4GiB", "GB", "1e9", "0.1", "nan", "9" * 30, "٣GB"])
def test_what_is_no_size(text):
    with pytest.raises(InputError, match="A size must be like 800KB, 500MB or 4GB"):
        sizes.size(text)


def test_the_limit_of_memory_is_a_quarter_of_what_there_is(monkeypatch, tmp_path):
    monkeypatch.setattr(sizes, "_CONTAINER", tmp_path / "memory.max")
    machine = sizes.machine_memory()
    assert sizes.memory_limit() == machine // 4 > 0
    for text, limit in (("max\n", machine), ("4000000\n", 4_000_000)):
        (tmp_path / "memory.max").write_text(text)
        assert sizes.machine_memory() == limit
    monkeypatch.setattr(sizes.os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096}.get(name, -1))
    (tmp_path / "memory.max").unlink()
    assert sizes.machine_memory() == sizes.UNKNOWN_MEMORY
