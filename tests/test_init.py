from __future__ import annotations

from pathlib import Path

import pytest

import fedonce

SOURCE = Path(fedonce.__file__).parent


def test_every_public_name_can_be_imported():
    for name in fedonce.__all__:
        assert getattr(fedonce, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fedonce.nothing  # noqa: B018
    assert "FedOnceClassifier" in dir(fedonce)


def test_no_pickle_and_no_torch_load():
    for path in SOURCE.rglob("*.py"):
        source = path.read_text()
        assert "pickle.load" not in source
        assert "torch.load" not in source
