"""Locked requirements agree with pyproject.toml, the archives hold what they should, and licences are known."""

import re
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from importlib.metadata import distributions
from io import BytesIO
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import list_licences

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = "3.11.4", "3.11.9", "3.12.4", "3.13.2"


def locked(name: str) -> dict[Requirement, list[str]]:
    """The requirements of a file, with their hashes."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(" --hash=") for line in text.splitlines() if line.strip()]
    return {Requirement(first.strip()): [one.strip() for one in hashes] for first, *hashes in lines}


def chosen(requirements: dict[Requirement, list[str]], python: str) -> dict[str, str]:
    """The version of each package on Linux with this Python."""
    environment = {"python_full_version": python, "python_version": ".".join(python.split(".")[:2])}
    return {
        canonicalize_name(one.name): next(iter(one.specifier)).version
        for one in requirements
        if one.marker is None or one.marker.evaluate({**default_environment(), **environment})
    }


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("plain.txt", PROJECT["dependencies"]),
        ("dev.txt", PROJECT["dependencies"] + EXTRAS["dev"] + EXTRAS["docs"] + EXTRAS["standards"]),
    ],
)
def test_what_is_locked_is_what_is_declared(file, wanted, python):
    """If this fails, run `make lock`."""
    versions = chosen(locked(file), python)
    for one in map(Requirement, wanted):
        name = canonicalize_name(one.name)
        assert name in versions, f"{one} is not in requirements/{file}: run `make lock`"
        assert one.specifier.contains(versions[name]), (
            f"{one}, but {versions[name]} is locked: run `make lock`"
        )


def test_all_that_is_locked_has_hashes_and_no_address():
    for file in ("plain.txt", "dev.txt"):
        for one, hashes in locked(file).items():
            assert re.fullmatch(r"==[\w.+!]+", str(one.specifier))
            assert hashes
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes)
            # PyTorch is large and optional: nobody gets it without asking.
            assert one.url is None
            assert canonicalize_name(one.name) not in ("torch", "triton")
        assert "://" not in (ROOT / "requirements" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("python", PYTHONS)
def test_plain_is_a_part_of_dev(python):
    assert chosen(locked("plain.txt"), python).items() <= chosen(locked("dev.txt"), python).items()


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The wheel and the source archive, and the module that looks into them."""
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    output = str(tmp_path_factory.mktemp("dist"))
    (wheel,), (archive,) = (
        list(builder(str(ROOT)).build(directory=output, versions=["standard"]))
        for builder in (WheelBuilder, SdistBuilder)
    )
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import package
    finally:
        sys.path.pop(0)
    return Path(wheel), Path(archive), package


def test_archives_hold_pliant_and_nothing_else(archives):
    wheel, archive, package = archives
    assert list(package.unwanted(wheel, archive)) == []
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    source = ROOT / "src"
    mine = {
        str(path.relative_to(source))
        for path in (source / "pliant").rglob("*")
        if path.suffix in package.SUFFIXES
    }
    assert mine <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_what_does_not_belong_is_seen(archives, tmp_path):
    _, _, package = archives
    wheel, archive = tmp_path / "a.whl", tmp_path / "a.tar.gz"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tests/test_a.py", "")
        file.writestr("pliant/face.png", "")
        file.writestr("pliant/large.py", "#" * (package.LARGEST + 1))
    with tarfile.open(archive, "w:gz") as files:
        files.addfile(tarfile.TarInfo("pliant-0/research/data.csv"), BytesIO())
    assert len(list(package.unwanted(wheel, archive))) == 4


def test_the_page_of_licences_is_of_what_is_installed():
    """If this fails, run `make pictures`, and see whether the licence may be used with Apache-2.0."""
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    known, versions = list_licences.listed(page), chosen(locked("dev.txt"), PYTHONS[0])
    installed = {canonicalize_name(one.metadata["Name"]): one.version for one in distributions()}
    for name, licence in list_licences.needed(PROJECT).items():
        assert name in known, f"{name} is not in docs/licences.md"
        assert set(licence.split(", ")) <= list_licences.COMPATIBLE, f"{name}: {licence}"
        # Other versions may say it in other words.
        if installed.get(name) == versions.get(name):
            assert known[name] == licence, name


@pytest.mark.parametrize(
    ("says", "licence"),
    [
        ("License-Expression: Apache-2.0 OR BSD-2-Clause", "Apache-2.0, BSD"),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT"),
        ("License: ISC License", "ISC"),
        ("License-Expression: GPL-3.0-only", "GPL-3.0-only"),
        ("License-Expression: BSD-3-Clause AND LGPL-2.1-or-later", "BSD-3-Clause AND LGPL-2.1-or-later"),
        ("License: Mine", "unknown"),
    ],
)
def test_licences_are_told_apart(monkeypatch, says, licence):
    monkeypatch.setattr(list_licences, "metadata", lambda name: message_from_string(says))
    assert list_licences.licence_of("some-package") == licence
    compatible = set(licence.split(", ")) <= list_licences.COMPATIBLE
    assert compatible == (licence in ("Apache-2.0, BSD", "MIT", "ISC"))
