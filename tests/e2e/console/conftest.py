"""One gateway with demo data for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from office import Office


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    office = Office(tmp_path_factory.mktemp("office"))
    with office.gateway:
        yield office.settle()
