"""The script that compares memlite with rivals as it grows: nothing is left out in silence, and it draws SVG."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import apsw
import numpy
import pytest

from memlite import embed
from tests.conftest import script

SVG = "{http://www.w3.org/2000/svg}"
SIZE = 20


@pytest.fixture(scope="module")
def bench_scale() -> ModuleType:
    return script("bench_scale")


def figure(size: int, measure: str, value: float | None, unit: str = "ms") -> dict[str, Any]:
    return {"size": size, "measure": measure, "value": value, "unit": unit}


RESULT = [
    *(figure(size, "FTS5", size / 10_000) for size in (1000, 10_000, 100_000)),
    *(figure(size, "exact scan", size / 9_000) for size in (1000, 10_000, 100_000)),
    figure(1000, "FTS5", 0.3),  # asked again beside something else
    figure(1000, "search", 8),
    *(figure(size, "memlite: search", 3 + size / 10_000) for size in (1000, 10_000, 100_000)),
    figure(1000, "memlite: add", 1.5),
    *(figure(size, "mem0: search", size / 100) for size in (1000, 10_000)),
    figure(100_000, "mem0", None, "") | {"reason": "only 70,000 of 100,000 texts were stored in 300 s"},
    *(figure(size, "py-memori: search", size / 9_500) for size in (1000, 10_000, 100_000)),
]


@pytest.fixture
def drawn(bench_scale: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ElementTree.Element:
    result, plot = tmp_path / "result.json", tmp_path / "scale.svg"
    result.write_text(json.dumps(RESULT))
    monkeypatch.setattr(sys, "argv", ["bench_scale", "--from", str(result), "--plot", str(plot)])
    bench_scale.main()
    return ElementTree.fromstring(plot.read_text(encoding="utf-8"))


def test_a_result_is_drawn_with_one_line_for_each_series(drawn: ElementTree.Element) -> None:
    lines = [len(line.attrib["points"].split()) for line in drawn.iter(f"{SVG}polyline")]
    assert sorted(lines) == [2, 3, 3, 3, 3]  # mem0 had no search of 100,000


def test_the_names_of_lines_that_end_together_do_not_overlap(drawn: ElementTree.Element) -> None:
    names = [each for each in drawn.iter(f"{SVG}text") if "paint-order" in each.attrib]
    assert {each.text for each in names} == {"memlite", "bare FTS5", "exact scan", "mem0", "py-memori"}
    heights = sorted(float(each.attrib["y"]) for each in names if each.text != "mem0")
    assert all(below - above > 14 for above, below in itertools.pairwise(heights))


def test_the_table_of_rivals_says_why_a_figure_is_missing(bench_scale: ModuleType) -> None:
    printed = bench_scale.rivals.table(RESULT)
    assert "| 1,000 | memlite | 1.5 |  | 3.1 |" in printed
    assert "| 100,000 | mem0 |" not in printed
    assert "mem0, 100,000 texts: only 70,000 of 100,000 texts were stored in 300 s" in printed


@pytest.fixture
def beside(bench_scale: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """memlite and mem0 with twenty texts, mem0 asking for a package that is nowhere, and a place for environments."""
    chance = numpy.random.default_rng(1)
    texts = [f"Text number {number} is about the harbour." for number in range(SIZE + 5)]
    fixed = {*embed.PROBES, *(text for pair in embed.PAIRS for text in pair)}
    questions = {"Where is the harbour?": '"harbour"', "Which text is it?": '"text"'}
    known = {text: chance.normal(0, 1, 16) for text in (*questions, *fixed)}
    bench_scale.rivals.give(tmp_path / "given", [(texts, chance.normal(0, 1, (len(texts), 16)))], questions, known)
    monkeypatch.setattr(bench_scale.rivals.Mem0, "requirements", (str(tmp_path / "nowhere-1.0-py3-none-any.whl"),))
    monkeypatch.setattr(bench_scale.rivals.environment, "VENV", tmp_path / "environments")
    with closing(apsw.Connection(str(tmp_path / "control.db"))) as db:
        db.execute("CREATE VIRTUAL TABLE c USING fts5(text, tokenize = 'porter unicode61')")
        db.executemany("INSERT INTO c(text) VALUES (?)", [(text,) for text in texts])
    return lambda names: bench_scale.rivals.Beside(names, tmp_path / "given", tmp_path, 60)


def test_a_rival_that_cannot_be_installed_is_reported_with_the_reason_at_every_size(
    bench_scale: ModuleType, beside: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rivals = beside(["mem0"])
    for size in (SIZE, 2 * SIZE):
        bench_scale.compare(size, bench_scale.Told(as_json=False), rivals, tmp_path / "control.db")
    first, second = capsys.readouterr().out.splitlines()
    assert "mem0" in first
    assert "not measured: it could not be installed: " in first
    assert "nowhere-1.0-py3-none-any.whl" in first
    assert f"not measured: with {SIZE} texts: it could not be installed: " in second


def test_a_rival_that_fails_is_reported_with_the_last_line_of_its_complaint(
    bench_scale: ModuleType, beside: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_scale.rivals, "made", lambda *_: Path(sys.executable))  # where no rival is installed
    ((name, reason),) = beside(["py-memori"]).measure(SIZE, tmp_path / "control.db")
    assert (name, reason) == ("py-memori", "store failed: ModuleNotFoundError: No module named 'memori'")
    assert not list(tmp_path.glob("py-memori_*"))


def test_memlite_is_measured_by_the_same_lines(
    bench_scale: ModuleType, beside: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_scale.rivals, "made", lambda *_: Path(sys.executable))
    monkeypatch.setattr(bench_scale.rivals, "_packages", lambda _: tmp_path / "given")
    ((name, found),) = beside(["memlite"]).measure(SIZE, tmp_path / "control.db")
    assert name == "memlite"
    assert set(found) == set(bench_scale.rivals.UNITS)
    assert all(value > 0 for value in found.values())
    assert sorted(each.name for each in tmp_path.glob("memlite_*")) == [f"memlite_{SIZE}"]  # kept, and no copy of it


@pytest.mark.parametrize("arguments", [["--rivals", "mem1"], ["--rivals", "mem0,"]], ids=["unknown", "empty"])
def test_a_rival_that_nobody_knows_is_refused(
    bench_scale: ModuleType, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench_scale", *arguments])
    with pytest.raises(SystemExit, match="2"):
        bench_scale.main()
