-- The step of version 3, and a lineage as that version wrote it.
DROP INDEX due;

CREATE TABLE lineages (
    name TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    -- patterns with a space between two
    names TEXT NOT NULL,
    ca TEXT,
    profile TEXT,
    key_type TEXT,
    solver TEXT,
    credential INTEGER,
    -- seconds since the Unix epoch
    due INTEGER,
    turn INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    error_at INTEGER,
    error TEXT,
    key_id INTEGER,
    nonce BLOB,
    bytes BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX lineages_by_due ON lineages (due, turn) WHERE due IS NOT NULL;
CREATE INDEX lineages_by_turn ON lineages (turn, due) WHERE due IS NOT NULL;
CREATE INDEX lineages_by_credential ON lineages (credential) WHERE credential IS NOT NULL;
CREATE INDEX lineages_failing ON lineages (name) WHERE attempts > 0;

CREATE TABLE lineage_claims (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO lineages (name, tenant, names, ca, credential, due, turn, attempts)
    VALUES ('e.example', 'customer', 'e.example', 'internal', 7, 5, 6, 0);
PRAGMA user_version = 3;
