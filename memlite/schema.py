"""The tables, views and triggers of a memlite file, as an ordered list of migrations.

A released entry of MIGRATIONS never changes; a schema change is a new entry at the end. Everything here
uses built-in SQLite only, so that stock `sqlite3` can read, search and even delete.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import apsw

from memlite import virtual
from memlite.quantisation import coarse, quantised

APPLICATION_ID = 0x6D656D6C  # "meml", in the header's bytes 68 to 71

# What is indexed and embedded of a message: its own words, under its speaker's name, so that "what did Ana say" finds
# them. One without any (HEARD) is not.
SPOKEN = "CASE {0}.name WHEN '' THEN '' ELSE {0}.name || ': ' END || coalesce({0}.own, {0}.content)"
HEARD = "{0}.own IS NOT ''"

# Marks (Mn, Mc) are token characters: otherwise every vowel sign would cut a Hindi or Thai word in two.
TOKENIZER = "porter unicode61 remove_diacritics 2 categories ''L* N* Co Mn Mc''"

_TABLES = """
CREATE TABLE scopes(
  id        INTEGER PRIMARY KEY,
  user_id   TEXT NOT NULL DEFAULT '',
  agent_id  TEXT NOT NULL DEFAULT '',
  run_id    TEXT NOT NULL DEFAULT '',
  root_id   INTEGER NOT NULL REFERENCES scopes(id),   -- (user, agent), or the run alone where it has neither
  user_key  INTEGER NOT NULL,                         -- one number for each distinct id: the index's scope terms
  agent_key INTEGER NOT NULL,
  run_key   INTEGER NOT NULL,
  terms     TEXT NOT NULL,
  UNIQUE(user_id, agent_id, run_id),
  CHECK(user_id <> '' OR agent_id <> '' OR run_id <> '')
) STRICT;
CREATE INDEX scopes_by_agent ON scopes(agent_id);
CREATE INDEX scopes_by_run ON scopes(run_id);
CREATE INDEX scopes_by_root ON scopes(root_id);

CREATE TABLE batches(
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  uid          TEXT NOT NULL UNIQUE,
  scope_id     INTEGER NOT NULL REFERENCES scopes(id),
  kind         TEXT NOT NULL DEFAULT '',
  instructions TEXT NOT NULL DEFAULT '',
  metadata     TEXT NOT NULL DEFAULT '{}' CHECK(json_valid(metadata)),
  expires_at   INTEGER,
  created_at   INTEGER NOT NULL,
  state        TEXT NOT NULL CHECK(state IN ('queued', 'done', 'stored')),
  attempts     INTEGER NOT NULL DEFAULT 0,
  error        TEXT NOT NULL DEFAULT '',
  worker       TEXT,                                   -- a claim: who extracts this batch, and until when
  lease_until  INTEGER,
  undoes       INTEGER REFERENCES batches(id),         -- the batch that this one undid
  made_by      TEXT NOT NULL DEFAULT '',               -- model and prompt version that extracted it last
  CHECK((worker IS NULL) = (lease_until IS NULL))
) STRICT;
CREATE INDEX batches_queued ON batches(id) WHERE state = 'queued';
CREATE INDEX batches_undoing ON batches(undoes) WHERE undoes IS NOT NULL;
CREATE INDEX batches_claimed ON batches(scope_id) WHERE worker IS NOT NULL;

CREATE TABLE messages(
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  uid             TEXT NOT NULL UNIQUE,
  scope_id        INTEGER NOT NULL REFERENCES scopes(id),
  batch_id        INTEGER NOT NULL REFERENCES batches(id),
  caller_id       TEXT,
  role            TEXT NOT NULL CHECK(role IN ('user', 'assistant', 'system', 'tool')),
  name            TEXT NOT NULL DEFAULT '',
  content         TEXT NOT NULL CHECK(content <> ''),
  own             TEXT,                                -- the content without what memlite had recalled; NULL: all of it
  hash            TEXT NOT NULL,                       -- of its own words
  words           TEXT NOT NULL DEFAULT '',            -- what is indexed beside them (words.beside)
  metadata        TEXT NOT NULL DEFAULT '{}' CHECK(json_valid(metadata)),
  observed_at     INTEGER NOT NULL,                    -- UTC milliseconds
  observed_offset INTEGER NOT NULL DEFAULT 0,          -- minutes east of UTC, as it was given
  created_at      INTEGER NOT NULL,
  archived_at     INTEGER,                             -- since when an undo hides it
  spent           INTEGER NOT NULL DEFAULT 0 CHECK(spent IN (0, 1)),  -- a fact learnt from it was deleted
  embedded        INTEGER NOT NULL DEFAULT 0 CHECK(embedded IN (0, 1))
) STRICT;
CREATE UNIQUE INDEX messages_caller_id ON messages(scope_id, caller_id) WHERE caller_id IS NOT NULL;
CREATE INDEX messages_by_scope ON messages(scope_id, id);
CREATE INDEX messages_by_text ON messages(hash, scope_id);
CREATE INDEX messages_by_batch ON messages(batch_id);
CREATE INDEX messages_unembedded ON messages(id) WHERE embedded = 0 AND own IS NOT '';

-- Messages that an audit's fix hides, by its batch; an undo of that batch shows them again.
CREATE TABLE hidden_messages(
  batch_id   INTEGER NOT NULL REFERENCES batches(id),
  message_id INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  PRIMARY KEY(batch_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX hidden_messages_by_message ON hidden_messages(message_id);

CREATE TABLE facts(
  id                INTEGER PRIMARY KEY AUTOINCREMENT,
  uid               TEXT NOT NULL UNIQUE,
  scope_id          INTEGER NOT NULL REFERENCES scopes(id),
  batch_id          INTEGER REFERENCES batches(id),
  text              TEXT NOT NULL CHECK(text <> ''),
  hash              TEXT NOT NULL,
  words             TEXT NOT NULL DEFAULT '',          -- what is indexed beside the text (words.beside)
  live              INTEGER NOT NULL DEFAULT 1 CHECK(live IN (0, 1)),
  attributed_to     TEXT NOT NULL DEFAULT '',
  kind              TEXT NOT NULL DEFAULT '',
  metadata          TEXT NOT NULL DEFAULT '{}' CHECK(json_valid(metadata)),
  confidence        REAL CHECK(confidence BETWEEN 0 AND 1),
  model             TEXT NOT NULL DEFAULT '',
  prompt_version    TEXT NOT NULL DEFAULT '',
  created_at        INTEGER NOT NULL,
  observed_at       INTEGER NOT NULL,
  observed_offset   INTEGER NOT NULL DEFAULT 0,
  event_start       TEXT,                              -- local calendar days, both included
  event_end         TEXT,
  event_precision   TEXT,
  valid_from        INTEGER NOT NULL,                  -- when it is true
  begins            INTEGER,                           -- valid_from by what it was learnt from; an older message that
                                                       -- says it too may put valid_from before it
  valid_to          INTEGER,
  recorded_to       INTEGER,                           -- when memlite stopped saying it (an update wrote a newer row)
  last_confirmed_at INTEGER NOT NULL,
  expires_at        INTEGER,
  ttl               INTEGER CHECK(ttl > 0),            -- milliseconds after the last confirmation, where a rule made
                                                       -- expires_at; NULL where it was given
  archived_at       INTEGER,
  unsourced         INTEGER NOT NULL DEFAULT 0 CHECK(unsourced IN (0, 1)),  -- a message it was learnt from was deleted
  embedded          INTEGER NOT NULL DEFAULT 0 CHECK(embedded IN (0, 1)),
  CHECK(live = 0 OR (valid_to IS NULL AND recorded_to IS NULL AND archived_at IS NULL)),
  CHECK(ttl IS NULL OR expires_at IS NOT NULL)
) STRICT;
-- Duplicates are impossible by construction: one living fact for each normal form in a scope.
CREATE UNIQUE INDEX facts_living ON facts(scope_id, hash) WHERE live = 1;
CREATE INDEX facts_by_text ON facts(hash, scope_id);  -- of all scopes of a root (CROSS JOIN), or of all of a user
CREATE INDEX facts_by_scope ON facts(scope_id, id);
CREATE INDEX facts_by_batch ON facts(batch_id);
CREATE INDEX facts_unembedded ON facts(id) WHERE embedded = 0;

-- What a `reextract` that is not done yet has made of a batch.
CREATE TABLE answers(
  batch_id INTEGER PRIMARY KEY REFERENCES batches(id) ON DELETE CASCADE,
  made_by  TEXT NOT NULL,                              -- model and prompt version
  facts    TEXT NOT NULL CHECK(json_valid(facts))
) STRICT;

CREATE TABLE sources(
  fact_id    INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
  message_id INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  PRIMARY KEY(fact_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX sources_by_message ON sources(message_id);

-- Messages that repeat a fact as memlite had recalled it: they are no source of it, and go with it.
CREATE TABLE recalls(
  fact_id    INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
  message_id INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  PRIMARY KEY(fact_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX recalls_by_message ON recalls(message_id);

CREATE TABLE entities(
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  uid      TEXT NOT NULL UNIQUE,
  root_id  INTEGER NOT NULL REFERENCES scopes(id),
  name     TEXT NOT NULL CHECK(name <> ''),
  folded   TEXT NOT NULL,                              -- the normalised name
  type     TEXT NOT NULL,
  embedded INTEGER NOT NULL DEFAULT 0 CHECK(embedded IN (0, 1)),
  UNIQUE(root_id, folded, type)
) STRICT;
CREATE INDEX entities_unembedded ON entities(id) WHERE embedded = 0;

CREATE TABLE aliases(
  entity_id INTEGER NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
  root_id   INTEGER NOT NULL REFERENCES scopes(id),
  folded    TEXT NOT NULL,
  name      TEXT NOT NULL,
  PRIMARY KEY(root_id, folded, entity_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX aliases_by_entity ON aliases(entity_id);

CREATE TABLE mentions(
  fact_id   INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
  entity_id INTEGER NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
  name      TEXT NOT NULL,                             -- as this fact writes it
  position  INTEGER NOT NULL,
  aliases   TEXT NOT NULL DEFAULT '[]' CHECK(json_valid(aliases)),  -- that came with this fact, and go with it
  PRIMARY KEY(fact_id, entity_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX mentions_by_entity ON mentions(entity_id, fact_id);

CREATE TABLE links(
  from_fact INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
  to_fact   INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
  relation  TEXT NOT NULL CHECK(relation IN ('replaces', 'continues', 'updates')),
  PRIMARY KEY(from_fact, to_fact, relation),
  CHECK(from_fact <> to_fact)
) STRICT, WITHOUT ROWID;
CREATE INDEX links_to ON links(to_fact, relation);

CREATE TABLE events(
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  fact_uid TEXT NOT NULL,                              -- no foreign key: an event outlives its fact
  action   TEXT NOT NULL CHECK(action IN
             ('ADD', 'CONFIRM', 'UPDATE', 'SUPERSEDE', 'EXPIRE', 'ARCHIVE', 'RESTORE', 'DELETE', 'MERGE')),
  scope_id INTEGER NOT NULL REFERENCES scopes(id),
  batch_id INTEGER REFERENCES batches(id),
  actor    TEXT NOT NULL DEFAULT '',
  reason   TEXT NOT NULL DEFAULT '',
  before   TEXT CHECK(before IS NULL OR json_valid(before)),
  after    TEXT CHECK(after IS NULL OR json_valid(after)),
  at       INTEGER NOT NULL
) STRICT;
CREATE INDEX events_by_fact ON events(fact_uid);
CREATE INDEX events_by_scope ON events(scope_id, id);
CREATE INDEX events_by_batch ON events(batch_id);

-- How long facts hold that are stored from then on: those of a scope, of a kind ('': of any), or both.
CREATE TABLE ttls(
  id           INTEGER PRIMARY KEY,
  scope_id     INTEGER REFERENCES scopes(id),          -- NULL: of any scope
  kind         TEXT NOT NULL DEFAULT '',
  milliseconds INTEGER NOT NULL CHECK(milliseconds > 0)
) STRICT;
CREATE UNIQUE INDEX ttls_once ON ttls(coalesce(scope_id, 0), kind);  -- a UNIQUE over NULLs stores a rule twice

CREATE TABLE embedder(
  generation TEXT PRIMARY KEY,                         -- of vectors: serving, building (by reembed) or previous
  name       TEXT NOT NULL,
  dimension  INTEGER NOT NULL CHECK(dimension > 0),
  probes     BLOB NOT NULL                             -- float32 vectors of embed.PROBES, one after the other
) STRICT;

-- The history is append-only, but for one thing: a deletion blanks the words of what it deletes.
CREATE TRIGGER events_keep BEFORE UPDATE ON events
WHEN coalesce(new.before, old.before) IS NOT old.before OR coalesce(new.after, old.after) IS NOT old.after
  OR new.reason NOT IN ('', old.reason) OR new.fact_uid <> old.fact_uid
  OR new.action <> old.action OR new.scope_id <> old.scope_id OR new.at <> old.at
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_stay BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- An entity goes with its last fact.
CREATE TRIGGER mentions_last AFTER DELETE ON mentions
WHEN NOT EXISTS (SELECT 1 FROM mentions WHERE entity_id = old.entity_id)
BEGIN DELETE FROM entities WHERE id = old.entity_id; END;

-- For people who open the file by hand.
CREATE VIEW current_facts AS
  SELECT f.uid AS id, s.user_id, s.agent_id, s.run_id, f.text, f.attributed_to AS "by", f.kind,
         datetime(f.observed_at / 1000, 'unixepoch') AS observed_at, f.event_start, f.metadata
  FROM facts f JOIN scopes s ON s.id = f.scope_id
  WHERE f.live = 1 AND (f.expires_at IS NULL OR f.expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000);
"""

_INDEX = """
CREATE VIRTUAL TABLE {table} USING fts5(
  text, words, scope, content='{view}', content_rowid='id', tokenize='{tokenizer}');
INSERT INTO {table}({table}, rank) VALUES ('rank', 'bm25(1.0, 1.0, 0.0)');
INSERT INTO {table}({table}, rank) VALUES ('secure-delete', 1);"""

# What makes each word index; the rows that it reads are in the view beside it.
WORDS = {
    table: _INDEX.format(table=table, view=view, tokenizer=TOKENIZER)
    for table, view in (("fact_words", "fact_text"), ("message_words", "message_text"))
}

# The index reads a view of the visible rows, so a rebuild cannot bring back what is hidden. The scope
# column carries the interned scope terms and weighs nothing: it filters inside the index.
_WORDS = """
CREATE VIEW {kind}_text AS
  SELECT t.id AS id, {text} AS text, t.words AS words, {scope} AS scope
  FROM {kind}s t JOIN scopes s ON s.id = t.scope_id {visible};
{index}
CREATE TRIGGER {kind}_words_insert AFTER INSERT ON {kind}s BEGIN
  INSERT INTO {kind}_words(rowid, text, words, scope)
    SELECT id, text, words, scope FROM {kind}_text WHERE id = new.id;
END;
CREATE TRIGGER {kind}_words_delete BEFORE DELETE ON {kind}s BEGIN
  INSERT INTO {kind}_words({kind}_words, rowid, text, words, scope)
    SELECT 'delete', id, text, words, scope FROM {kind}_text WHERE id = old.id;
END;
CREATE TRIGGER {kind}_words_before BEFORE UPDATE OF {columns} ON {kind}s BEGIN
  INSERT INTO {kind}_words({kind}_words, rowid, text, words, scope)
    SELECT 'delete', id, text, words, scope FROM {kind}_text WHERE id = old.id;
END;
CREATE TRIGGER {kind}_words_after AFTER UPDATE OF {columns} ON {kind}s BEGIN
  INSERT INTO {kind}_words(rowid, text, words, scope)
    SELECT id, text, words, scope FROM {kind}_text WHERE id = new.id;
END;
"""

_FACT_WORDS = _WORDS.format(
    kind="fact",
    text="t.text",
    scope="s.terms || CASE t.live WHEN 1 THEN ' live' ELSE '' END",
    visible="WHERE t.archived_at IS NULL",
    columns="text, words, live, archived_at, scope_id",
    index=WORDS["fact_words"],
)
_MESSAGE_WORDS = _WORDS.format(
    kind="message",
    text=SPOKEN.format("t"),
    scope="s.terms",
    visible=f"WHERE t.archived_at IS NULL AND {HEARD.format('t')}",
    columns="name, content, own, words, archived_at, scope_id",
    index=WORDS["message_words"],
)

# The cosines that an embedder gives embed.PAIRS: of texts that have nothing to do with one another their mean and
# standard deviation, of questions and their answers the mean.
_CALIBRATION = """
ALTER TABLE embedder ADD COLUMN apart REAL;
ALTER TABLE embedder ADD COLUMN spread REAL;
ALTER TABLE embedder ADD COLUMN alike REAL;
"""

# The day of a message, and of a fact the first day of what it tells, else the one on which it was said.
SAID_ON = "date({0}.observed_at / 1000 + 60 * {0}.observed_offset, 'unixepoch')"
HAPPENED_ON = f"coalesce({{0}}.event_start, {SAID_ON})"
_BY_DAY = f"""
CREATE INDEX messages_by_day ON messages(scope_id, {SAID_ON.replace("{0}.", "")});
CREATE INDEX facts_by_day ON facts(scope_id, {HAPPENED_ON.replace("{0}.", "")});
"""

# Vectors in ordinary tables: a signed byte for each number (quantised), or floats where that is too coarse for their
# embedder. A vector's number is never used twice: what has a greater one than a process has seen was stored since
# (codes.py).
_VECTORS = """
ALTER TABLE embedder ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE embedder ADD COLUMN floats INTEGER NOT NULL DEFAULT 0 CHECK(floats IN (0, 1));
UPDATE embedder SET number = rowid;
""" + "".join(
    f"""
CREATE TABLE {kind}_vectors(
  number   INTEGER PRIMARY KEY AUTOINCREMENT,
  id       INTEGER NOT NULL,                           -- of the {kind}
  made_by  INTEGER NOT NULL,                           -- the embedder's number
  scope_id INTEGER NOT NULL,                           -- the {kind}'s, of an entity its root
  vector   BLOB NOT NULL,
  UNIQUE(id, made_by)
) STRICT;
CREATE INDEX {kind}_vectors_by_scope ON {kind}_vectors(scope_id, made_by);
"""
    for kind in ("fact", "message", "entity")
)


def _to_ordinary_tables(db: apsw.Connection) -> None:
    virtual.convert(db, lambda: run(db, _VECTORS), lambda probes: None if coarse(probes) else quantised)


# The digests of texts (words.digest) were "sha256:" and 64 hexadecimal digits.
_DIGESTS = """
DROP INDEX facts_living;
DROP INDEX facts_by_text;
DROP INDEX messages_by_text;
UPDATE facts SET hash = memlite_shorter(hash);
UPDATE messages SET hash = memlite_shorter(hash);
CREATE UNIQUE INDEX facts_living ON facts(scope_id, hash) WHERE live = 1;
CREATE INDEX facts_by_text ON facts(hash, scope_id);
CREATE INDEX messages_by_text ON messages(hash, scope_id);
"""


def _to_short_digests(db: apsw.Connection) -> None:
    db.create_scalar_function("memlite_shorter", lambda *found: _shorter(str(*found)), 1, deterministic=True)
    run(db, _DIGESTS)
    db.create_scalar_function("memlite_shorter", None, 1)


def _shorter(digest: Any) -> Any:
    """A digest in its short form. What is none stays, for `doctor` to find."""
    if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
        return digest
    return "a" + base64.urlsafe_b64encode(bytes.fromhex(digest[7:])[:18]).decode()


# What the metadata of facts and messages says at its top, for filters: texts, numbers and booleans. Of long keys and
# texts only the beginning, so that more may be found than is asked for.
LONGEST_MEMBER = 100  # characters
_MEMBERS = f"""
{{select}} substr(member.key, 1, {LONGEST_MEMBER}),
       CASE member.type WHEN 'text' THEN substr(member.atom, 1, {LONGEST_MEMBER}) ELSE member.atom END, {{row}}.id
FROM {{before}} json_each(CASE WHEN json_valid({{row}}.metadata) THEN {{row}}.metadata ELSE '{{{{}}}}' END) AS member
WHERE member.key IS NOT NULL AND member.atom IS NOT NULL
"""
MEMBERS_OF = {
    kind: _MEMBERS.format(select="SELECT", row="t", before=f"{kind}s t CROSS JOIN") for kind in ("fact", "message")
}
# DISTINCT: the OR IGNORE of a trigger counts for nothing in an UPDATE OR ABORT.
_NEW, _OLD = (_MEMBERS.format(select="SELECT DISTINCT", row=row, before="") for row in ("new", "old"))
METADATA = "".join(
    f"""
CREATE TABLE {kind}_metadata(
  key   TEXT NOT NULL,
  value ANY NOT NULL,
  id    INTEGER NOT NULL,                              -- of the {kind}
  PRIMARY KEY(key, value, id)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO {kind}_metadata {MEMBERS_OF[kind]};
CREATE TRIGGER {kind}_metadata_insert AFTER INSERT ON {kind}s WHEN new.metadata <> '{{}}' BEGIN
  INSERT OR IGNORE INTO {kind}_metadata {_NEW};
END;
CREATE TRIGGER {kind}_metadata_delete BEFORE DELETE ON {kind}s WHEN old.metadata <> '{{}}' BEGIN
  DELETE FROM {kind}_metadata WHERE (key, value, id) IN ({_OLD});
END;
CREATE TRIGGER {kind}_metadata_update AFTER UPDATE OF metadata ON {kind}s
WHEN new.metadata <> old.metadata BEGIN
  DELETE FROM {kind}_metadata WHERE (key, value, id) IN ({_OLD});
  INSERT OR IGNORE INTO {kind}_metadata {_NEW};
END;
"""
    for kind in MEMBERS_OF
)

# For what went on for more than a day.
_BY_LAST_DAY = "CREATE INDEX facts_by_last_day ON facts(scope_id, event_end) WHERE event_end > event_start;"

MIGRATIONS: tuple[str | Callable[[apsw.Connection], None], ...] = (
    _TABLES + _FACT_WORDS + _MESSAGE_WORDS,
    _CALIBRATION,
    _BY_DAY,
    _to_ordinary_tables,
    _to_short_digests,
    METADATA + _BY_LAST_DAY,
)
VERSION = len(MIGRATIONS)


def migrate(db: apsw.Connection, version: int, to: int | None = None) -> None:
    """Bring the tables from a schema version to another one, or to this one, inside the caller's transaction."""
    for step in MIGRATIONS[version:to]:
        if isinstance(step, str):
            run(db, step)
        else:
            step(db)


def run(db: apsw.Connection, script: str) -> None:
    """Run several statements; apsw stops at the first row unless the cursor is consumed."""
    for _ in db.execute(script):
        pass
