-- A trace file as version 1 wrote it. It is never regenerated: it stands for files that people have.
BEGIN TRANSACTION;
CREATE TABLE bodies (
            number INTEGER PRIMARY KEY,
            hash BLOB NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            size INTEGER NOT NULL,
            packed INTEGER NOT NULL DEFAULT 0,
            bytes BLOB);
INSERT INTO "bodies" VALUES(1,X'CD0D0ECF729EC5FE932D8400B97E180415AFA856','text',1000,1,X'785E0BC94855C8482C4ACA2F2D52C8C94F57C84F5330B4B034D753081995180D92D1C4305CB201007D9338E0');
CREATE TABLE events (
            run INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            parent INTEGER,
            kind TEXT NOT NULL,
            time REAL NOT NULL,
            meta TEXT NOT NULL,
            PRIMARY KEY (run, sequence)) WITHOUT ROWID;
INSERT INTO "events" VALUES(1,1,NULL,'run_started',1700000001.0,'{"signature":{"name":"Arrivals","inputs":["log"],"outputs":["arrivals"]},"models":{"main":"openai/gpt-5-mini"},"task":{"path":"harbour.yaml","text":"..."},"parent":null,"depth":0,"inputs":{"log":{"type":"str","kind":"text","size":1000,"value":{"$body":"cd0d0ecf729ec5fe932d8400b97e180415afa856","size":1000,"head":"The harbour log of 1897. The harbour log of 1897. The harbour log of 1897. The h"}}}}');
INSERT INTO "events" VALUES(1,2,NULL,'iteration_started',1700000002.0,'{"iteration":1}');
INSERT INTO "events" VALUES(1,3,2,'cell_started',1700000003.0,'{"iteration":1,"code":"print(len(log))"}');
INSERT INTO "events" VALUES(1,4,3,'cell_ended',1700000004.0,'{"iteration":1,"output":"1000","success":true,"seconds":0.01}');
INSERT INTO "events" VALUES(1,5,2,'history',1700000005.0,'{"iteration":1,"reasoning":"I look.","told":"Output: 1000"}');
INSERT INTO "events" VALUES(1,6,NULL,'run_ended',1700000006.0,'{"ending":"Submitted","confidence":1.0,"result":{"status":"submitted","outputs":{"arrivals":389,"ports":["Hull","Antwerp"]}}}');
INSERT INTO "events" VALUES(2,1,NULL,'run_started',1700000101.0,'{"signature":{"name":"Arrivals","inputs":["log"],"outputs":["arrivals"]},"models":{"main":"openai/gpt-5-mini"},"task":{"path":"harbour.yaml","text":"..."},"parent":null,"depth":0,"inputs":{"log":{"type":"str","kind":"text","size":1000,"value":{"$body":"cd0d0ecf729ec5fe932d8400b97e180415afa856","size":1000,"head":"The harbour log of 1897. The harbour log of 1897. The harbour log of 1897. The h"}}}}');
INSERT INTO "events" VALUES(2,2,NULL,'iteration_started',1700000102.0,'{"iteration":1}');
CREATE TABLE pieces (
            body INTEGER NOT NULL,
            number INTEGER NOT NULL,
            packed INTEGER NOT NULL,
            bytes BLOB NOT NULL,
            UNIQUE (body, number));
CREATE TABLE runs (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            parent TEXT,
            parent_call INTEGER,
            depth INTEGER NOT NULL DEFAULT 0,
            resumed_from TEXT,
            started REAL NOT NULL,
            seen REAL NOT NULL,
            ended REAL,
            ending TEXT,
            reason TEXT,
            confidence REAL,
            iterations INTEGER NOT NULL DEFAULT 0,
            llm_calls INTEGER NOT NULL DEFAULT 0,
            tokens INTEGER NOT NULL DEFAULT 0,
            cost_usd REAL,
            seconds REAL,
            own_tokens_in INTEGER NOT NULL DEFAULT 0,
            own_tokens_out INTEGER NOT NULL DEFAULT 0,
            own_cost_usd REAL,
            own_model_calls INTEGER NOT NULL DEFAULT 0,
            events INTEGER NOT NULL DEFAULT 0);
INSERT INTO "runs" VALUES(1,'0123456789ab','Arrivals',NULL,NULL,0,NULL,1700000000.0,1700000009.5,1700000009.5,'submitted',NULL,1.0,1,0,42,NULL,9.5,0,0,NULL,0,6);
INSERT INTO "runs" VALUES(2,'ba9876543210','Arrivals',NULL,NULL,0,NULL,1700000100.0,1700000101.0,NULL,NULL,NULL,NULL,1,0,0,NULL,NULL,0,0,NULL,0,2);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
COMMIT;
PRAGMA user_version = 1;
