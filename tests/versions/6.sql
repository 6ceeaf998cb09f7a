PRAGMA page_size=4096;
PRAGMA writable_schema=ON;
BEGIN TRANSACTION;
DROP TABLE IF EXISTS aliases;
CREATE TABLE aliases(
  entity_id INTEGER NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
  root_id   INTEGER NOT NULL REFERENCES scopes(id),
  folded    TEXT NOT NULL,
  name      TEXT NOT NULL,
  PRIMARY KEY(root_id, folded, entity_id)
) STRICT, WITHOUT ROWID;
INSERT INTO aliases VALUES(3,4,'bolek','Bolek');
CREATE INDEX aliases_by_entity ON aliases(entity_id);
DROP TABLE IF EXISTS answers;
CREATE TABLE answers(
  batch_id INTEGER PRIMARY KEY REFERENCES batches(id) ON DELETE CASCADE,
  made_by  TEXT NOT NULL,                              -- model and prompt version
  facts    TEXT NOT NULL CHECK(json_valid(facts))
) STRICT;
DROP TABLE IF EXISTS batches;
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
INSERT INTO batches VALUES(1,'89a5e02b5fab4e3995a23067b4cda878',2,'','','{}',NULL,1796130190758,'done',1,'',NULL,NULL,NULL,'echo 1');
INSERT INTO batches VALUES(2,'935d4e2369d94cc89d1c072467ffa8b9',3,'','','{}',NULL,1796130190814,'done',1,'',NULL,NULL,NULL,'echo 1');
INSERT INTO batches VALUES(3,'bef0847b8a1b4662ae78d29d5fc9fb27',1,'','','{}',NULL,1796130190819,'stored',0,'',NULL,NULL,NULL,'');
INSERT INTO batches VALUES(4,'3ff21c2e60ce4ae6b5887b460d991415',1,'','','{}',NULL,1796130190822,'done',0,'',NULL,NULL,NULL,'');
INSERT INTO batches VALUES(5,'d11f5d977fa84e33833e2d955fd3f312',1,'','','{}',NULL,1796130190823,'done',0,'',NULL,NULL,NULL,'');
INSERT INTO batches VALUES(6,'db4eb2e9734b4edfbfabee8809d22205',4,'','','{}',NULL,1796130190825,'done',0,'',NULL,NULL,NULL,'');
INSERT INTO batches VALUES(7,'8bfc1f2ecfc44aa2b0740cb3843316a6',1,'','','{}',NULL,1796130190829,'done',0,'',NULL,NULL,NULL,'');
INSERT INTO batches VALUES(8,'1055585137b944338022c430b1dfd3f6',1,'','','{}',NULL,1796130190857,'done',0,'',NULL,NULL,NULL,'');
INSERT INTO batches VALUES(9,'d6da220b075a489198d8eead570be6fd',1,'','','{}',NULL,1796130190859,'done',0,'',NULL,NULL,NULL,'');
INSERT INTO batches VALUES(10,'a8863e5e4b9e4747ad4d6ac0df728514',1,'','','{}',NULL,1796130190861,'done',1,'',NULL,NULL,NULL,'echo 1');
INSERT INTO batches VALUES(11,'3bbe4e6e81694320800a197c7d395068',1,'undo','','{"state": "done"}',NULL,1796130190873,'done',0,'',NULL,NULL,10,'');
INSERT INTO batches VALUES(12,'d4540f2ee608485197f39ddb0b1a58d4',1,'','','{}',NULL,1796130190876,'queued',0,'',NULL,NULL,NULL,'');
INSERT INTO batches VALUES(13,'2c3d6c20c9e548a18e6535536c891bde',1,'','','{}',NULL,1796130190877,'done',0,'',NULL,NULL,NULL,'');
CREATE INDEX batches_claimed ON batches(scope_id) WHERE worker IS NOT NULL;
CREATE INDEX batches_queued ON batches(id) WHERE state = 'queued';
CREATE INDEX batches_undoing ON batches(undoes) WHERE undoes IS NOT NULL;
DROP TABLE IF EXISTS embedder;
CREATE TABLE embedder(
  generation TEXT PRIMARY KEY,                         -- of vectors: serving, building (by reembed) or previous
  name       TEXT NOT NULL,
  dimension  INTEGER NOT NULL CHECK(dimension > 0),
  probes     BLOB NOT NULL                             -- float32 vectors of embed.PROBES, one after the other
, apart REAL, spread REAL, alike REAL, number INTEGER NOT NULL DEFAULT 0, floats INTEGER NOT NULL DEFAULT 0 CHECK(floats IN (0, 1))) STRICT;
INSERT INTO embedder VALUES('serving','vowels',5,X'74EA373FD7EF093F74EA373E74EAB73E74EA373E0B7CF73ED6FCC53ED6FCC53E3B3D2D3FD6FCC53D74EA373FD7EF093F74EA373E74EA373E74EAB73E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E',0.8866289550306411,0.0705340386214764,0.8900547815763827,1,1);
DROP TABLE IF EXISTS entities;
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
INSERT INTO entities VALUES(1,'c6157e3e56324f4ea2003a9d7a79b73d',1,'Ana','ana','person',1);
INSERT INTO entities VALUES(2,'2eb1ac0a67d541aaba93b78ca0edcdcf',3,'Ana','ana','person',1);
INSERT INTO entities VALUES(3,'351bbb8a082a422db8daf953501a6f51',4,'Bo','bo','person',1);
INSERT INTO entities VALUES(4,'4e3dde917ba14c329c1226d5400d404a',1,'Bo','bo','unknown',1);
CREATE INDEX entities_unembedded ON entities(id) WHERE embedded = 0;
DROP TABLE IF EXISTS entity_vectors;
CREATE TABLE entity_vectors(
  number   INTEGER PRIMARY KEY AUTOINCREMENT,
  id       INTEGER NOT NULL,                           -- of the entity
  made_by  INTEGER NOT NULL,                           -- the embedder's number
  scope_id INTEGER NOT NULL,                           -- the entity's, of an entity its root
  vector   BLOB NOT NULL,
  UNIQUE(id, made_by)
) STRICT;
INSERT INTO entity_vectors VALUES(1,1,1,1,X'4001553FD5008E3ED5008E3ED5008E3ED5008E3E');
INSERT INTO entity_vectors VALUES(2,2,1,3,X'4001553FD5008E3ED5008E3ED5008E3ED5008E3E');
INSERT INTO entity_vectors VALUES(3,3,1,4,X'F304B53EF304B53EF304B53EF304353FF304B53E');
INSERT INTO entity_vectors VALUES(4,4,1,1,X'F304B53EF304B53EF304B53EF304353FF304B53E');
CREATE INDEX entity_vectors_by_scope ON entity_vectors(scope_id, made_by);
DROP TABLE IF EXISTS events;
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
INSERT INTO events VALUES(1,'31c288087a084e74803cace0f34e30e9','ADD',2,1,'echo','',NULL,NULL,1796130190812);
INSERT INTO events VALUES(2,'7be5d52196df4f0cbf69db0c0fe6ba7d','ADD',3,2,'echo','',NULL,NULL,1796130190817);
INSERT INTO events VALUES(3,'75f75898cdfd4a5f8e233df503f39030','ADD',1,4,'caller','',NULL,NULL,1796130190822);
INSERT INTO events VALUES(4,'1b9a9427e4524e71b0668b2467ac1378','ADD',1,5,'caller','',NULL,NULL,1796130190823);
INSERT INTO events VALUES(5,'75f75898cdfd4a5f8e233df503f39030','SUPERSEDE',1,5,'caller','','{"archived_at": null, "expires_at": null, "live": true, "valid_to": null}','{"replaced_by": "1b9a9427e4524e71b0668b2467ac1378", "valid_to": 1796130190822}',1796130190823);
INSERT INTO events VALUES(6,'bef7cc19c5984c22bad8f4df187529d5','ADD',4,6,'caller','',NULL,NULL,1796130190825);
INSERT INTO events VALUES(7,'bef7cc19c5984c22bad8f4df187529d5','UPDATE',4,NULL,'caller','','{"expires_at": null, "kind": "", "metadata": {"n": 1}, "text": "Bo has a bike."}','{"expires_at": null, "kind": "thing", "metadata": {"n": 1}, "text": "Bo has a red bike."}',1796130190827);
INSERT INTO events VALUES(8,'33e5c5a597994e3a934a7b1073169e77','ADD',1,7,'caller','',NULL,NULL,1796130190829);
INSERT INTO events VALUES(9,'6d503b28b2484f569e07d6390a67c17d','ADD',1,8,'caller','',NULL,NULL,1796130190857);
INSERT INTO events VALUES(10,'71ef7db69b9c41e3a24a8de5d240d812','ADD',1,9,'caller','',NULL,NULL,1796130190859);
INSERT INTO events VALUES(11,'71ef7db69b9c41e3a24a8de5d240d812','ARCHIVE',1,NULL,'caller','','{"archived_at": null, "expires_at": null, "live": true, "valid_to": null}','{"archived_at": 1796130190860, "expires_at": null, "live": false, "valid_to": null}',1796130190860);
INSERT INTO events VALUES(12,'7fca5332e32a493eaf91f716a14f7bb6','ADD',1,10,'echo','',NULL,NULL,1796130190871);
INSERT INTO events VALUES(13,'7fca5332e32a493eaf91f716a14f7bb6','ARCHIVE',1,11,'caller','undo of a8863e5e4b9e4747ad4d6ac0df728514','{"archived_at": null, "expires_at": null, "live": true, "valid_to": null}','{"archived_at": 1796130190873, "expires_at": null, "live": false, "valid_to": null}',1796130190873);
INSERT INTO events VALUES(14,'07db575ec92745e2bf858951262c38a6','ADD',1,13,'caller','',NULL,NULL,1796130190877);
INSERT INTO events VALUES(15,'07db575ec92745e2bf858951262c38a6','DELETE',1,NULL,'caller','',NULL,NULL,1796130190879);
CREATE INDEX events_by_batch ON events(batch_id);
CREATE INDEX events_by_fact ON events(fact_uid);
CREATE INDEX events_by_scope ON events(scope_id, id);
CREATE TRIGGER events_keep BEFORE UPDATE ON events
WHEN coalesce(new.before, old.before) IS NOT old.before OR coalesce(new.after, old.after) IS NOT old.after
  OR new.reason NOT IN ('', old.reason) OR new.fact_uid <> old.fact_uid
  OR new.action <> old.action OR new.scope_id <> old.scope_id OR new.at <> old.at
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_stay BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
DROP TABLE IF EXISTS fact_metadata;
CREATE TABLE fact_metadata(
  key   TEXT NOT NULL,
  value ANY NOT NULL,
  id    INTEGER NOT NULL,                              -- of the fact
  PRIMARY KEY(key, value, id)
) STRICT, WITHOUT ROWID;
INSERT INTO fact_metadata VALUES('n',1,5);
INSERT INTO fact_metadata VALUES('n',1,6);
DROP TABLE IF EXISTS fact_vectors;
CREATE TABLE fact_vectors(
  number   INTEGER PRIMARY KEY AUTOINCREMENT,
  id       INTEGER NOT NULL,                           -- of the fact
  made_by  INTEGER NOT NULL,                           -- the embedder's number
  scope_id INTEGER NOT NULL,                           -- the fact's, of an entity its root
  vector   BLOB NOT NULL,
  UNIQUE(id, made_by)
) STRICT;
INSERT INTO fact_vectors VALUES(1,1,1,2,X'E13CEA3E96289C3E96281C3EBB32433F96289C3E');
INSERT INTO fact_vectors VALUES(2,2,1,3,X'74EA373FD7EF093F74EA373E74EAB73E74EA373E');
INSERT INTO fact_vectors VALUES(3,3,1,1,X'74EA373F74EA373ED7EF093F74EAB73E74EA373E');
INSERT INTO fact_vectors VALUES(4,4,1,1,X'74EA373F74EA373ED7EF093F74EAB73E74EA373E');
INSERT INTO fact_vectors VALUES(6,6,1,4,X'F7BC233F4A51DA3E4A51DA3E4A51DA3E4A515A3E');
INSERT INTO fact_vectors VALUES(7,5,1,4,X'3ACD133F3ACD133FA311C53EA311C53EA311453E');
INSERT INTO fact_vectors VALUES(8,7,1,1,X'3046623FF304353EF304353EF304B53EF304353E');
INSERT INTO fact_vectors VALUES(9,8,1,1,X'CD84553FCD84553ECD84D53ECD84553ECD84553E');
CREATE INDEX fact_vectors_by_scope ON fact_vectors(scope_id, made_by);
DELETE FROM sqlite_schema WHERE name='fact_words' AND type='table';
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table','fact_words','fact_words',0,'CREATE VIRTUAL TABLE fact_words USING fts5(
  text, words, scope, content=''fact_text'', content_rowid=''id'', tokenize=''porter unicode61 remove_diacritics 2 categories ''''L* N* Co Mn Mc'''''')');
DROP TABLE IF EXISTS fact_words_config;
CREATE TABLE 'fact_words_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO fact_words_config VALUES('rank','bm25(1.0, 1.0, 0.0)');
INSERT INTO fact_words_config VALUES('secure-delete',1);
INSERT INTO fact_words_config VALUES('version',5);
DROP TABLE IF EXISTS fact_words_data;
CREATE TABLE 'fact_words_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO fact_words_data VALUES(1,X'0821001E');
INSERT INTO fact_words_data VALUES(10,X'00000003010D0D000D0101010201010301010401010501010601010701010801010901010A01010B01010C01010D0101');
INSERT INTO fact_words_data VALUES(137438953473,X'0000005103306130010601020302026E610102020105646F75726F01020601046C697665010601020501026F6E01020401027232010601020402026F7701020301037468650102050102753101060102020409070A0B07090708');
INSERT INTO fact_words_data VALUES(274877906945,X'0000004C03306133020601020302026E61020202010563656C6C6F02020501046C69766502060102050104706C616902020301027230020601020401037468650202040102753102060102020409070A0B090908');
INSERT INTO fact_words_data VALUES(412316860417,X'00000004');
INSERT INTO fact_words_data VALUES(549755813889,X'0000004E03306130040601020302056C6D6F6E6404020402026E6104020201056472696E6B04020301046C697665040601020501046D696C6B04020501027230040601020401027531040601020204090A070A0B0909');
INSERT INTO fact_words_data VALUES(687194767361,X'0000004103306130030601020302026E6103020201056472696E6B03020301046D696C6B03020501036F61740302040102723003060102040102753103060102020409070A090809');
INSERT INTO fact_words_data VALUES(824633720833,X'00000004');
INSERT INTO fact_words_data VALUES(962072674305,X'0000003A0230610602040201300606010203010462696B6506020502016F0602020102686106020301027230060601020401027534060601020204060809060709');
INSERT INTO fact_words_data VALUES(1099511627777,X'0000004C0230610502040201300506010203010462696B6505020602016F0502020102686105020301046C6976650506010205010272300506010204020265640502050102753405060102020406080906070B0907');
INSERT INTO fact_words_data VALUES(1236950581249,X'00000046023061070204020130070601020302026E610702020104636F6C640702050102686107020301046C69766507060102050102723007060102040102753107060102020406080709070B09');
INSERT INTO fact_words_data VALUES(1374389534721,X'0000004203306130080601020302026E61080202010568617070690802040102697308020301046C69766508060102050102723008060102040102753108060102020409070A070B09');
INSERT INTO fact_words_data VALUES(1511828488193,X'00000004');
INSERT INTO fact_words_data VALUES(1649267441665,X'00000004');
INSERT INTO fact_words_data VALUES(1786706395137,X'00000004');
DROP TABLE IF EXISTS fact_words_docsize;
CREATE TABLE 'fact_words_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
INSERT INTO fact_words_docsize VALUES(1,X'050004');
INSERT INTO fact_words_docsize VALUES(2,X'040004');
INSERT INTO fact_words_docsize VALUES(3,X'040003');
INSERT INTO fact_words_docsize VALUES(4,X'040004');
INSERT INTO fact_words_docsize VALUES(5,X'050004');
INSERT INTO fact_words_docsize VALUES(6,X'040003');
INSERT INTO fact_words_docsize VALUES(7,X'040004');
INSERT INTO fact_words_docsize VALUES(8,X'030004');
DROP TABLE IF EXISTS fact_words_idx;
CREATE TABLE 'fact_words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
INSERT INTO fact_words_idx VALUES(1,X'',2);
INSERT INTO fact_words_idx VALUES(2,X'',2);
INSERT INTO fact_words_idx VALUES(3,X'',2);
INSERT INTO fact_words_idx VALUES(4,X'',2);
INSERT INTO fact_words_idx VALUES(5,X'',2);
INSERT INTO fact_words_idx VALUES(6,X'',2);
INSERT INTO fact_words_idx VALUES(7,X'',2);
INSERT INTO fact_words_idx VALUES(8,X'',2);
INSERT INTO fact_words_idx VALUES(9,X'',2);
INSERT INTO fact_words_idx VALUES(10,X'',2);
INSERT INTO fact_words_idx VALUES(11,X'',2);
INSERT INTO fact_words_idx VALUES(12,X'',2);
INSERT INTO fact_words_idx VALUES(13,X'',2);
DROP TABLE IF EXISTS facts;
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
INSERT INTO facts VALUES(1,'31c288087a084e74803cace0f34e30e9',2,1,'Ana rows on the Douro.','aDh0wiIQjMkGrrw7YALx7IHTE','',1,'User','','{}',NULL,'echo','1',1796130190812,1796130190758,0,NULL,NULL,NULL,1796130190758,1796130190758,NULL,NULL,1796130190758,NULL,NULL,NULL,0,1);
INSERT INTO facts VALUES(2,'7be5d52196df4f0cbf69db0c0fe6ba7d',3,2,'Ana plays the cello.','aNj_GdtXYTz_sop3PDOClqgm_','',1,'User','','{}',NULL,'echo','1',1796130190817,1796130190814,0,NULL,NULL,NULL,1796130190814,1796130190814,NULL,NULL,1796130190814,NULL,NULL,NULL,0,1);
INSERT INTO facts VALUES(3,'75f75898cdfd4a5f8e233df503f39030',1,4,'Ana drinks oat milk.','aRZfs4T_e8JhoiJXwCooud539','',0,'','','{}',NULL,'','',1796130190822,1796130190821,0,NULL,NULL,NULL,1796130190821,1796130190821,1796130190822,NULL,1796130190821,NULL,NULL,NULL,0,1);
INSERT INTO facts VALUES(4,'1b9a9427e4524e71b0668b2467ac1378',1,5,'Ana drinks almond milk.','avsMWKo1VLcQ3tDwdUmIdIsYu','',1,'','','{}',NULL,'','',1796130190823,1796130190822,0,NULL,NULL,NULL,1796130190822,1796130190822,NULL,NULL,1796130190822,NULL,NULL,NULL,0,1);
INSERT INTO facts VALUES(5,'bef7cc19c5984c22bad8f4df187529d5',4,6,'Bo has a red bike.','aaS5U43tuBETN2MgJR6P26aY5','',1,'','thing','{"n":1}',NULL,'','',1796130190827,1796130190825,0,NULL,NULL,NULL,1796130190825,1796130190825,NULL,NULL,1796130190827,NULL,NULL,NULL,0,1);
INSERT INTO facts VALUES(6,'44f485494402462880303d6aec0cb8f8',4,6,'Bo has a bike.','aFnr24HytyfQl9w4xiMxxlnee','',0,'','','{"n":1}',NULL,'','',1796130190825,1796130190825,0,NULL,NULL,NULL,1796130190825,1796130190825,NULL,1796130190827,1796130190825,NULL,NULL,NULL,0,1);
INSERT INTO facts VALUES(7,'33e5c5a597994e3a934a7b1073169e77',1,7,'Ana has a cold.','aAS8Zyr2E0wrg_Gus6hVSzzQM','',1,'','','{}',NULL,'','',1796130190829,1796130190829,0,NULL,NULL,NULL,1796130190829,1796130190829,NULL,NULL,1796130190829,978307200000,NULL,NULL,0,1);
INSERT INTO facts VALUES(8,'6d503b28b2484f569e07d6390a67c17d',1,8,'Ana is happy.','aROIayVZ5PTthSAh3z5IiSY2V','',1,'','mood','{}',NULL,'','',1796130190857,1796130190830,0,'2024-06-01','2024-08-31','season',1796130190830,1796130190830,NULL,NULL,1796130190830,4949730190830,3153600000000,NULL,0,1);
INSERT INTO facts VALUES(9,'71ef7db69b9c41e3a24a8de5d240d812',1,9,'Ana owes Bo ten euros.','avVuuE4LzIzfU42L1_bicqqyL','',0,'','','{}',NULL,'','',1796130190859,1796130190858,0,NULL,NULL,NULL,1796130190858,1796130190858,NULL,NULL,1796130190858,NULL,NULL,1796130190860,0,0);
INSERT INTO facts VALUES(10,'7fca5332e32a493eaf91f716a14f7bb6',1,10,'Ana moved to Rome.','aC5lazahSVNuhxWsGYiWSb_hu','',0,'User','','{}',NULL,'echo','1',1796130190871,1796130190861,0,NULL,NULL,NULL,1796130190861,1796130190861,NULL,NULL,1796130190861,NULL,NULL,1796130190873,0,0);
CREATE TRIGGER fact_metadata_delete BEFORE DELETE ON facts WHEN old.metadata <> '{}' BEGIN
  DELETE FROM fact_metadata WHERE (key, value, id) IN (
SELECT DISTINCT substr(member.key, 1, 100),
       CASE member.type WHEN 'text' THEN substr(member.atom, 1, 100) ELSE member.atom END, old.id
FROM  json_each(CASE WHEN json_valid(old.metadata) THEN old.metadata ELSE '{}' END) AS member
WHERE member.key IS NOT NULL AND member.atom IS NOT NULL
);
END;
CREATE TRIGGER fact_metadata_insert AFTER INSERT ON facts WHEN new.metadata <> '{}' BEGIN
  INSERT OR IGNORE INTO fact_metadata 
SELECT DISTINCT substr(member.key, 1, 100),
       CASE member.type WHEN 'text' THEN substr(member.atom, 1, 100) ELSE member.atom END, new.id
FROM  json_each(CASE WHEN json_valid(new.metadata) THEN new.metadata ELSE '{}' END) AS member
WHERE member.key IS NOT NULL AND member.atom IS NOT NULL
;
END;
CREATE TRIGGER fact_metadata_update AFTER UPDATE OF metadata ON facts
WHEN new.metadata <> old.metadata BEGIN
  DELETE FROM fact_metadata WHERE (key, value, id) IN (
SELECT DISTINCT substr(member.key, 1, 100),
       CASE member.type WHEN 'text' THEN substr(member.atom, 1, 100) ELSE member.atom END, old.id
FROM  json_each(CASE WHEN json_valid(old.metadata) THEN old.metadata ELSE '{}' END) AS member
WHERE member.key IS NOT NULL AND member.atom IS NOT NULL
);
  INSERT OR IGNORE INTO fact_metadata 
SELECT DISTINCT substr(member.key, 1, 100),
       CASE member.type WHEN 'text' THEN substr(member.atom, 1, 100) ELSE member.atom END, new.id
FROM  json_each(CASE WHEN json_valid(new.metadata) THEN new.metadata ELSE '{}' END) AS member
WHERE member.key IS NOT NULL AND member.atom IS NOT NULL
;
END;
CREATE TRIGGER fact_words_after AFTER UPDATE OF text, words, live, archived_at, scope_id ON facts BEGIN
  INSERT INTO fact_words(rowid, text, words, scope)
    SELECT id, text, words, scope FROM fact_text WHERE id = new.id;
END;
CREATE TRIGGER fact_words_before BEFORE UPDATE OF text, words, live, archived_at, scope_id ON facts BEGIN
  INSERT INTO fact_words(fact_words, rowid, text, words, scope)
    SELECT 'delete', id, text, words, scope FROM fact_text WHERE id = old.id;
END;
CREATE TRIGGER fact_words_delete BEFORE DELETE ON facts BEGIN
  INSERT INTO fact_words(fact_words, rowid, text, words, scope)
    SELECT 'delete', id, text, words, scope FROM fact_text WHERE id = old.id;
END;
CREATE TRIGGER fact_words_insert AFTER INSERT ON facts BEGIN
  INSERT INTO fact_words(rowid, text, words, scope)
    SELECT id, text, words, scope FROM fact_text WHERE id = new.id;
END;
CREATE INDEX facts_by_batch ON facts(batch_id);
CREATE INDEX facts_by_day ON facts(scope_id, coalesce(event_start, date(observed_at / 1000 + 60 * observed_offset, 'unixepoch')));
CREATE INDEX facts_by_last_day ON facts(scope_id, event_end) WHERE event_end > event_start;
CREATE INDEX facts_by_scope ON facts(scope_id, id);
CREATE INDEX facts_by_text ON facts(hash, scope_id);
CREATE UNIQUE INDEX facts_living ON facts(scope_id, hash) WHERE live = 1;
CREATE INDEX facts_unembedded ON facts(id) WHERE embedded = 0;
DROP TABLE IF EXISTS hidden_messages;
CREATE TABLE hidden_messages(
  batch_id   INTEGER NOT NULL REFERENCES batches(id),
  message_id INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  PRIMARY KEY(batch_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX hidden_messages_by_message ON hidden_messages(message_id);
DROP TABLE IF EXISTS links;
CREATE TABLE links(
  from_fact INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
  to_fact   INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
  relation  TEXT NOT NULL CHECK(relation IN ('replaces', 'continues', 'updates')),
  PRIMARY KEY(from_fact, to_fact, relation),
  CHECK(from_fact <> to_fact)
) STRICT, WITHOUT ROWID;
INSERT INTO links VALUES(4,3,'replaces');
INSERT INTO links VALUES(5,6,'updates');
CREATE INDEX links_to ON links(to_fact, relation);
DROP TABLE IF EXISTS mentions;
CREATE TABLE mentions(
  fact_id   INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
  entity_id INTEGER NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
  name      TEXT NOT NULL,                             -- as this fact writes it
  position  INTEGER NOT NULL,
  aliases   TEXT NOT NULL DEFAULT '[]' CHECK(json_valid(aliases)),  -- that came with this fact, and go with it
  PRIMARY KEY(fact_id, entity_id)
) STRICT, WITHOUT ROWID;
INSERT INTO mentions VALUES(1,1,'Ana',0,'[]');
INSERT INTO mentions VALUES(2,2,'Ana',0,'[]');
INSERT INTO mentions VALUES(3,1,'Ana',0,'[]');
INSERT INTO mentions VALUES(4,1,'Ana',0,'[]');
INSERT INTO mentions VALUES(5,3,'Bo',0,'[]');
INSERT INTO mentions VALUES(6,3,'Bo',0,'["Bolek"]');
INSERT INTO mentions VALUES(7,1,'Ana',0,'[]');
INSERT INTO mentions VALUES(8,1,'Ana',0,'[]');
INSERT INTO mentions VALUES(9,1,'Ana',0,'[]');
INSERT INTO mentions VALUES(9,4,'Bo',1,'[]');
INSERT INTO mentions VALUES(10,1,'Ana',0,'[]');
CREATE INDEX mentions_by_entity ON mentions(entity_id, fact_id);
CREATE TRIGGER mentions_last AFTER DELETE ON mentions
WHEN NOT EXISTS (SELECT 1 FROM mentions WHERE entity_id = old.entity_id)
BEGIN DELETE FROM entities WHERE id = old.entity_id; END;
DROP TABLE IF EXISTS message_metadata;
CREATE TABLE message_metadata(
  key   TEXT NOT NULL,
  value ANY NOT NULL,
  id    INTEGER NOT NULL,                              -- of the message
  PRIMARY KEY(key, value, id)
) STRICT, WITHOUT ROWID;
DROP TABLE IF EXISTS message_vectors;
CREATE TABLE message_vectors(
  number   INTEGER PRIMARY KEY AUTOINCREMENT,
  id       INTEGER NOT NULL,                           -- of the message
  made_by  INTEGER NOT NULL,                           -- the embedder's number
  scope_id INTEGER NOT NULL,                           -- the message's, of an entity its root
  vector   BLOB NOT NULL,
  UNIQUE(id, made_by)
) STRICT;
INSERT INTO message_vectors VALUES(1,1,1,2,X'E13CEA3E96289C3E96281C3EBB32433F96289C3E');
INSERT INTO message_vectors VALUES(2,2,1,3,X'74EA373FD7EF093F74EA373E74EAB73E74EA373E');
INSERT INTO message_vectors VALUES(3,3,1,1,X'2EF9E43E2EF9E43E2EF9E43E2EF9E43E2EF9E43E');
CREATE INDEX message_vectors_by_scope ON message_vectors(scope_id, made_by);
DELETE FROM sqlite_schema WHERE name='message_words' AND type='table';
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table','message_words','message_words',0,'CREATE VIRTUAL TABLE message_words USING fts5(
  text, words, scope, content=''message_text'', content_rowid=''id'', tokenize=''porter unicode61 remove_diacritics 2 categories ''''L* N* Co Mn Mc'''''')');
DROP TABLE IF EXISTS message_words_config;
CREATE TABLE 'message_words_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO message_words_config VALUES('rank','bm25(1.0, 1.0, 0.0)');
INSERT INTO message_words_config VALUES('secure-delete',1);
INSERT INTO message_words_config VALUES('version',5);
DROP TABLE IF EXISTS message_words_data;
CREATE TABLE 'message_words_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO message_words_data VALUES(1,X'0410070C');
INSERT INTO message_words_data VALUES(10,X'000000030105050005010101020101030101040101050101');
INSERT INTO message_words_data VALUES(137438953473,X'0000004603306130010601020302026E610102020105646F75726F01020601026F6E01020401027232010601020402026F7701020301037468650102050102753101060102020409070A07090708');
INSERT INTO message_words_data VALUES(274877906945,X'0000004103306133020601020302026E61020202010563656C6C6F0202050104706C616902020301027230020601020401037468650202040102753102060102020409070A090908');
INSERT INTO message_words_data VALUES(412316860417,X'000000880330613003060102030102723003060102040102753103060102020106E4BD8FE59CA803060101040106E59CA8E9878C03060101050205A89CE4BD8F03060101030205AE89E5A89C0306010102070FE4BD8FE59CA8E9878CE696AFE69CAC0302020106E696AFE69CAC030601010702029CAC03060101080106E9878CE696AF0306010106040909090D0D0C0C140D09');
INSERT INTO message_words_data VALUES(549755813889,X'00000004');
INSERT INTO message_words_data VALUES(687194767361,X'0000004C023061050204020130050601020302026E61050202010463616C6C0502060103646F670502050102686105020301046D69736F050207010272300506010204010275310506010202040608070908070909');
DROP TABLE IF EXISTS message_words_docsize;
CREATE TABLE 'message_words_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
INSERT INTO message_words_docsize VALUES(1,X'050003');
INSERT INTO message_words_docsize VALUES(2,X'040003');
INSERT INTO message_words_docsize VALUES(3,X'010703');
INSERT INTO message_words_docsize VALUES(5,X'060003');
DROP TABLE IF EXISTS message_words_idx;
CREATE TABLE 'message_words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
INSERT INTO message_words_idx VALUES(1,X'',2);
INSERT INTO message_words_idx VALUES(2,X'',2);
INSERT INTO message_words_idx VALUES(3,X'',2);
INSERT INTO message_words_idx VALUES(4,X'',2);
INSERT INTO message_words_idx VALUES(5,X'',2);
DROP TABLE IF EXISTS messages;
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
INSERT INTO messages VALUES(1,'8b068faf58b24094bc456a3aa1249e74',2,1,NULL,'user','','Ana rows on the Douro.',NULL,'aDh0wiIQjMkGrrw7YALx7IHTE','','{}',1796130190758,0,1796130190758,NULL,0,1);
INSERT INTO messages VALUES(2,'4a73f073077d4d82b1060313e9e60244',3,2,'m1','user','','Ana plays the cello.',NULL,'aNj_GdtXYTz_sop3PDOClqgm_','','{}',1796130190814,0,1796130190814,NULL,0,1);
INSERT INTO messages VALUES(3,'6a173ea770af43de96c4b2c4c86e6357',1,3,NULL,'user','','安娜住在里斯本。',NULL,'aYidPQFyKJKMeoIVxL8WsxnDC','安娜 娜住 住在 在里 里斯 斯本 本 。','{}',1796130190819,0,1796130190819,NULL,0,1);
INSERT INTO messages VALUES(4,'4ed79d37def74dff864da8411942eb94',1,10,NULL,'user','','Ana moved to Rome.',NULL,'aC5lazahSVNuhxWsGYiWSb_hu','','{}',1796130190861,0,1796130190861,1796130190873,0,0);
INSERT INTO messages VALUES(5,'3c269be279994e6189c6eb009204b8ee',1,12,NULL,'user','','Ana has a dog called Miso.',NULL,'az1JS_bjVeGdnIJ2eEmaJiedH','','{}',1796130190876,0,1796130190876,NULL,0,0);
CREATE TRIGGER message_metadata_delete BEFORE DELETE ON messages WHEN old.metadata <> '{}' BEGIN
  DELETE FROM message_metadata WHERE (key, value, id) IN (
SELECT DISTINCT substr(member.key, 1, 100),
       CASE member.type WHEN 'text' THEN substr(member.atom, 1, 100) ELSE member.atom END, old.id
FROM  json_each(CASE WHEN json_valid(old.metadata) THEN old.metadata ELSE '{}' END) AS member
WHERE member.key IS NOT NULL AND member.atom IS NOT NULL
);
END;
CREATE TRIGGER message_metadata_insert AFTER INSERT ON messages WHEN new.metadata <> '{}' BEGIN
  INSERT OR IGNORE INTO message_metadata 
SELECT DISTINCT substr(member.key, 1, 100),
       CASE member.type WHEN 'text' THEN substr(member.atom, 1, 100) ELSE member.atom END, new.id
FROM  json_each(CASE WHEN json_valid(new.metadata) THEN new.metadata ELSE '{}' END) AS member
WHERE member.key IS NOT NULL AND member.atom IS NOT NULL
;
END;
CREATE TRIGGER message_metadata_update AFTER UPDATE OF metadata ON messages
WHEN new.metadata <> old.metadata BEGIN
  DELETE FROM message_metadata WHERE (key, value, id) IN (
SELECT DISTINCT substr(member.key, 1, 100),
       CASE member.type WHEN 'text' THEN substr(member.atom, 1, 100) ELSE member.atom END, old.id
FROM  json_each(CASE WHEN json_valid(old.metadata) THEN old.metadata ELSE '{}' END) AS member
WHERE member.key IS NOT NULL AND member.atom IS NOT NULL
);
  INSERT OR IGNORE INTO message_metadata 
SELECT DISTINCT substr(member.key, 1, 100),
       CASE member.type WHEN 'text' THEN substr(member.atom, 1, 100) ELSE member.atom END, new.id
FROM  json_each(CASE WHEN json_valid(new.metadata) THEN new.metadata ELSE '{}' END) AS member
WHERE member.key IS NOT NULL AND member.atom IS NOT NULL
;
END;
CREATE TRIGGER message_words_after AFTER UPDATE OF name, content, own, words, archived_at, scope_id ON messages BEGIN
  INSERT INTO message_words(rowid, text, words, scope)
    SELECT id, text, words, scope FROM message_text WHERE id = new.id;
END;
CREATE TRIGGER message_words_before BEFORE UPDATE OF name, content, own, words, archived_at, scope_id ON messages BEGIN
  INSERT INTO message_words(message_words, rowid, text, words, scope)
    SELECT 'delete', id, text, words, scope FROM message_text WHERE id = old.id;
END;
CREATE TRIGGER message_words_delete BEFORE DELETE ON messages BEGIN
  INSERT INTO message_words(message_words, rowid, text, words, scope)
    SELECT 'delete', id, text, words, scope FROM message_text WHERE id = old.id;
END;
CREATE TRIGGER message_words_insert AFTER INSERT ON messages BEGIN
  INSERT INTO message_words(rowid, text, words, scope)
    SELECT id, text, words, scope FROM message_text WHERE id = new.id;
END;
CREATE INDEX messages_by_batch ON messages(batch_id);
CREATE INDEX messages_by_day ON messages(scope_id, date(observed_at / 1000 + 60 * observed_offset, 'unixepoch'));
CREATE INDEX messages_by_scope ON messages(scope_id, id);
CREATE INDEX messages_by_text ON messages(hash, scope_id);
CREATE UNIQUE INDEX messages_caller_id ON messages(scope_id, caller_id) WHERE caller_id IS NOT NULL;
CREATE INDEX messages_unembedded ON messages(id) WHERE embedded = 0 AND own IS NOT '';
DROP TABLE IF EXISTS recalls;
CREATE TABLE recalls(
  fact_id    INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
  message_id INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  PRIMARY KEY(fact_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX recalls_by_message ON recalls(message_id);
DROP TABLE IF EXISTS scopes;
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
INSERT INTO scopes VALUES(1,'ana','','',1,1,0,0,'u1 a0 r0');
INSERT INTO scopes VALUES(2,'ana','','r1',1,1,0,2,'u1 a0 r2');
INSERT INTO scopes VALUES(3,'ana','cook','',3,1,3,0,'u1 a3 r0');
INSERT INTO scopes VALUES(4,'bo','','',4,4,0,0,'u4 a0 r0');
CREATE INDEX scopes_by_agent ON scopes(agent_id);
CREATE INDEX scopes_by_root ON scopes(root_id);
CREATE INDEX scopes_by_run ON scopes(run_id);
DROP TABLE IF EXISTS sources;
CREATE TABLE sources(
  fact_id    INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
  message_id INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  PRIMARY KEY(fact_id, message_id)
) STRICT, WITHOUT ROWID;
INSERT INTO sources VALUES(1,1);
INSERT INTO sources VALUES(2,2);
INSERT INTO sources VALUES(10,4);
CREATE INDEX sources_by_message ON sources(message_id);
DROP TABLE IF EXISTS ttls;
CREATE TABLE ttls(
  id           INTEGER PRIMARY KEY,
  scope_id     INTEGER REFERENCES scopes(id),          -- NULL: of any scope
  kind         TEXT NOT NULL DEFAULT '',
  milliseconds INTEGER NOT NULL CHECK(milliseconds > 0)
) STRICT;
INSERT INTO ttls VALUES(1,NULL,'mood',3153600000000);
CREATE UNIQUE INDEX ttls_once ON ttls(coalesce(scope_id, 0), kind);
DROP VIEW IF EXISTS current_facts;
CREATE VIEW current_facts AS
  SELECT f.uid AS id, s.user_id, s.agent_id, s.run_id, f.text, f.attributed_to AS "by", f.kind,
         datetime(f.observed_at / 1000, 'unixepoch') AS observed_at, f.event_start, f.metadata
  FROM facts f JOIN scopes s ON s.id = f.scope_id
  WHERE f.live = 1 AND (f.expires_at IS NULL OR f.expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000);
DROP VIEW IF EXISTS fact_text;
CREATE VIEW fact_text AS
  SELECT t.id AS id, t.text AS text, t.words AS words, s.terms || CASE t.live WHEN 1 THEN ' live' ELSE '' END AS scope
  FROM facts t JOIN scopes s ON s.id = t.scope_id WHERE t.archived_at IS NULL;
DROP VIEW IF EXISTS message_text;
CREATE VIEW message_text AS
  SELECT t.id AS id, CASE t.name WHEN '' THEN '' ELSE t.name || ': ' END || coalesce(t.own, t.content) AS text, t.words AS words, s.terms AS scope
  FROM messages t JOIN scopes s ON s.id = t.scope_id WHERE t.archived_at IS NULL AND t.own IS NOT '';
DELETE FROM main.sqlite_sequence WHERE name='batches';
INSERT INTO main.sqlite_sequence VALUES ('batches', 13);
DELETE FROM main.sqlite_sequence WHERE name='entities';
INSERT INTO main.sqlite_sequence VALUES ('entities', 4);
DELETE FROM main.sqlite_sequence WHERE name='entity_vectors';
INSERT INTO main.sqlite_sequence VALUES ('entity_vectors', 4);
DELETE FROM main.sqlite_sequence WHERE name='events';
INSERT INTO main.sqlite_sequence VALUES ('events', 15);
DELETE FROM main.sqlite_sequence WHERE name='fact_vectors';
INSERT INTO main.sqlite_sequence VALUES ('fact_vectors', 12);
DELETE FROM main.sqlite_sequence WHERE name='facts';
INSERT INTO main.sqlite_sequence VALUES ('facts', 11);
DELETE FROM main.sqlite_sequence WHERE name='message_vectors';
INSERT INTO main.sqlite_sequence VALUES ('message_vectors', 4);
DELETE FROM main.sqlite_sequence WHERE name='messages';
INSERT INTO main.sqlite_sequence VALUES ('messages', 5);
pragma user_version=6;
pragma application_id=1835363692;
COMMIT TRANSACTION;
PRAGMA writable_schema=OFF;
BEGIN;
CREATE TABLE no_such_table(x,y,z);
ROLLBACK;
PRAGMA application_id=1835363692;
PRAGMA user_version=6;
