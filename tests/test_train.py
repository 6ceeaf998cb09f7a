"""The training of the adapter, on a tiny model of chance: it goes on where it stopped, and says what it saw."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import generate
import pytest

from memlite import compact
from memlite.models import metadata

SCRIPTS = Path(__file__).parent.parent / "scripts" / "extractor"
STEPS = 6  # of 4 examples; a pool has 16 here, so that a run that stops after 3 stops within one
ADAPTER = "SmolLM2-135M-Instruct.Q4_1.adapter.gguf"


@pytest.fixture(scope="module")
def train(models: Path) -> ModuleType:
    """The script, with a tiny model in the place of the default extractor's base; its tokeniser is the real one."""
    loader = SourceFileLoader("train", str(SCRIPTS / "train"))
    spec = importlib.util.spec_from_loader("train", loader)
    assert spec is not None
    script = importlib.util.module_from_spec(spec)
    loader.exec_module(script)
    script.base_model = tiny
    script.HELD_OUT, script.POOL = 2, 16
    return script


def tiny(base: Path, device: str) -> Any:
    import attention
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        attn_implementation=attention.NAME,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


Run = Callable[..., list[list[list[int]]]]


@pytest.fixture(scope="module")
def run(train: ModuleType) -> Run:
    """Train in a folder, and save after every step. Returns the batches that were learnt from."""

    def run_(folder: Path, *words: object, stop: int = 99) -> list[list[list[int]]]:
        met: list[list[list[int]]] = []

        class Watched(train.Training):  # type: ignore[misc, name-defined]
            def _step(self, batch: Any) -> float:
                if len(met) == stop:
                    raise KeyboardInterrupt
                met.append([tokens for tokens, _ in batch])
                return float(super()._step(batch))

        given = ["--steps", STEPS, "--batch", 4, "--save", 0, "--eager", "--folder", folder, *words]
        options: argparse.Namespace = train.asked([str(word) for word in given])
        try:
            Watched(options).run()
        except KeyboardInterrupt:
            assert len(met) == stop
        return met

    return run_


@pytest.fixture(scope="module")
def whole(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[list[int]]]]:
    """The folder of a run that nothing interrupted, and its batches."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(folder)


@pytest.fixture
def finished(whole: tuple[Path, object], tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(whole[0], tmp_path / "finished"))


def test_a_run_that_was_stopped_goes_on_with_the_examples_and_to_the_adapter_of_one_that_was_not(
    run: Run, whole: tuple[Path, list[list[list[int]]]], tmp_path: Path
) -> None:
    folder, batches = whole
    assert len(batches) == STEPS
    first = run(tmp_path, stop=3)
    second = run(tmp_path)
    assert (len(first), len(second)) == (3, 3)
    assert first + second == batches
    assert (tmp_path / ADAPTER).read_bytes() == (folder / ADAPTER).read_bytes()


def test_another_seed_gives_another_adapter(run: Run, whole: tuple[Path, object], tmp_path: Path) -> None:
    run(tmp_path, "--steps", 1, "--seed", 2)
    (other,) = tmp_path.glob("*.4.adapter.gguf")
    run(tmp_path / "again", "--steps", 1, "--seed", 2)
    assert (tmp_path / "again" / other.name).read_bytes() == other.read_bytes()
    run(tmp_path / "one", "--steps", 1)
    assert (tmp_path / "one" / other.name).read_bytes() != other.read_bytes()


def test_the_same_command_after_the_last_step_makes_no_other_and_more_steps_go_on(
    run: Run, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (finished / ADAPTER).read_bytes()
    assert run(finished) == []
    assert "--steps" in capsys.readouterr().out
    assert (finished / ADAPTER).read_bytes() == before
    assert len(run(finished, "--steps", STEPS + 1)) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rank", "64"], "rank: 32 there, 64 here"),
        (["--seed", "2"], "seed: 1 there, 2 here"),
        (["--batch", "8"], "batch: 4 there, 8 here"),
        (["--from", "ADAPTER"], "from: nothing there, "),
    ],
)
def test_a_checkpoint_of_another_run_is_not_gone_on_from(run: Run, finished: Path, words: list[str], said: str) -> None:
    before = (finished / "checkpoint.pt").read_bytes()
    (finished / "other").mkdir()
    other = (finished / ADAPTER).rename(finished / "other" / ADAPTER)
    with pytest.raises(SystemExit, match="another --folder") as caught:
        run(finished, *(other if word == "ADAPTER" else word for word in words))
    assert said in str(caught.value)
    assert (finished / "checkpoint.pt").read_bytes() == before


def test_a_checkpoint_of_other_data_another_prompt_or_base_or_an_old_one_is_not_gone_on_from(
    run: Run, train: ModuleType, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(generate, "data_version", lambda: "other")
        with pytest.raises(SystemExit, match=r"data: .* there, other here"):
            run(finished)
    with monkeypatch.context() as patch:
        patch.setattr(compact, "PROMPT_VERSION", "0-compact")
        with pytest.raises(SystemExit, match=r"prompt: .* there, 0-compact here"):
            run(finished)
    with monkeypatch.context() as patch:
        patch.setattr(train.models, "digest", lambda path: "0" * 64)
        with pytest.raises(SystemExit, match=r"base: .* there, 0000"):
            run(finished)
    train.torch.save({"seen": 16, "spent": 3.0}, finished / "checkpoint.pt")
    with pytest.raises(SystemExit, match="base: nothing there, "):
        run(finished)


def test_the_adapters_of_the_last_checkpoints_stay_and_have_a_mean(
    run: Run, train: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "KEPT", 2)
    run(tmp_path, stop=2)
    run(tmp_path, stop=1)
    one, two = (tmp_path / f"SmolLM2-135M-Instruct.Q4_1.{seen}.adapter.gguf" for seen in (8, 12))
    assert set(tmp_path.glob("*.gguf")) == {one, two, tmp_path / ADAPTER}
    assert (tmp_path / ADAPTER).read_bytes() == two.read_bytes()
    mean = tmp_path / "mean.gguf"
    subprocess.run([sys.executable, SCRIPTS / "average", one, two, "--out", mean], check=True)
    assert metadata(mean) == metadata(two)


def test_an_adapter_tells_all_examples_and_data_that_it_saw(run: Run, finished: Path, tmp_path: Path) -> None:
    import lora

    about = metadata(finished / ADAPTER)
    assert about["memlite.examples"] == str(4 * STEPS)
    assert about["memlite.data_version"] == generate.data_version()
    older = tmp_path / "older.gguf"
    said = {key: str(value) for key, value in about.items() if key.startswith("memlite.")}
    lora.pack(
        older, lora.unpack(finished / ADAPTER), 32.0, said | {"memlite.examples": "1000", "memlite.data_version": "4"}
    )
    run(tmp_path / "later", "--from", older, "--steps", 1)
    about = metadata(tmp_path / "later" / ADAPTER)
    assert about["memlite.examples"] == "1004"
    assert about["memlite.data_version"] == f"4, {generate.data_version()}"


def test_an_adapter_that_cannot_be_gone_on_from_is_refused(run: Run, finished: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="rank 32"):
        run(tmp_path, "--from", finished / ADAPTER, "--rank", 64)
    (tmp_path / "text.gguf").write_text("no adapter")
    with pytest.raises(SystemExit, match="no readable GGUF header"):
        run(tmp_path / "new", "--from", tmp_path / "text.gguf")


@pytest.mark.parametrize(
    "words", [["--rank", "1"], ["--from", "nowhere.gguf"], ["--from", "within.gguf"], ["--steps", "0"]]
)
def test_what_cannot_be_trained_is_refused_at_once(
    run: Run, tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("within.gguf").touch()
    with pytest.raises(SystemExit) as caught:
        run(tmp_path, *words)
    assert caught.value.code == 2


def test_the_version_of_the_data_is_that_of_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = generate.data_version()
    copy = Path(shutil.copytree(SCRIPTS, tmp_path / "extractor"))
    monkeypatch.setattr(generate, "FOLDER", copy)
    assert generate.data_version() == before
    with (copy / "held_out" / "held_out.txt").open("a") as file:
        file.write("\n")
    assert generate.data_version() == before  # nothing is learnt from it
    for changed in ("skeletons/letters.txt", "slots.py", "generate.py"):
        with (copy / changed).open("a") as file:
            file.write("\n")
        assert generate.data_version() != before
        before = generate.data_version()
