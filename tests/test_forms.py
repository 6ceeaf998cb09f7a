"""Which form of prompt a model gets: the shipped table, a user's own before it, and adapters of another base."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from memlite import forms, models
from memlite.compact import PROMPT_VERSION
from memlite.errors import InvalidInputError, ModelError

DEFAULT = models.DEFAULTS["extractor"].file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("file", "parameters", "form"),
    [(DEFAULT, 135e6, "compact"), ("tiny.gguf", 135e6, "quotes"), ("Qwen3-4B-Q4_K_M.gguf", 4e9, "general")],
)
def test_the_shipped_table_knows_small_large_and_trained_models(
    folder: Path, file: str, parameters: int, form: str
) -> None:
    assert forms.choose(Path(file), int(parameters)).form == form


def test_a_users_table_comes_first_and_its_adapter_lies_beside_it(folder: Path) -> None:
    (folder / "forms.toml").write_text('[[extractor]]\nfile = "tiny*"\nform = "compact"\nadapter = "tiny.lora.gguf"\n')
    entry = forms.choose(Path("/else/tiny-v2.gguf"), 10)
    assert (entry.form, entry.adapter) == ("compact", folder / "tiny.lora.gguf")
    assert forms.adapter_of(Path("tiny.gguf")) == folder / "tiny.lora.gguf"
    assert forms.choose(Path(DEFAULT), 10).form == "compact"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[[extractor]", "TOML"),
        ("[[extractor]]\nform = 'free'", "'free'"),
        ("[[extractor]]\nform = 'general'\nfiles = 'x'", "files"),
        ("[[extractor]]\nform = 'general'\nbelow = '500'", "below"),
        ("[extractor]\nform = 'general'", "[[extractor]]"),
        ("[models]\nform = 'general'", "models"),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(folder: Path, table: str, said: str) -> None:
    (folder / "forms.toml").write_text(table)
    with pytest.raises(InvalidInputError, match=r"forms\.toml") as caught:
        forms.choose(Path("a.gguf"), 1)
    assert said in str(caught.value)


def adapter(path: Path, **about: str) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in about.items():
        writer.add_string(key.replace("__", "."), value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_an_adapter_of_another_base_prompt_or_kind_is_refused(tmp_path: Path) -> None:
    base = tmp_path / "base.gguf"
    base.write_bytes(b"GGUF")
    lora = {"adapter__type": "lora"}
    right = adapter(
        tmp_path / "a.gguf", **lora, memlite__base__digest=models.digest(base), memlite__prompt_version=PROMPT_VERSION
    )
    assert forms.check_adapter(right, base, PROMPT_VERSION)["adapter.type"] == "lora"
    for name, about, said in (
        ("b", lora | {"memlite__base__digest": "0" * 64}, "another file"),
        ("c", lora | {"memlite__prompt_version": "0-compact"}, "prompt version 0-compact"),
        ("d", {"general__type": "model"}, "no LoRA adapter"),
    ):
        with pytest.raises(ModelError, match=said):
            forms.check_adapter(adapter(tmp_path / f"{name}.gguf", **about), base, PROMPT_VERSION)
    with pytest.raises(ModelError, match="does not exist"):
        forms.check_adapter(tmp_path / "none.gguf", base, PROMPT_VERSION)
