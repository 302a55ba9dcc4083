-- The step of version 3, and a lineage as that version wrote it.

DROP INDEX sekisho.due;

CREATE TABLE sekisho.lineages (
    name text COLLATE "C" PRIMARY KEY,
    tenant text NOT NULL,
    -- patterns with a space between two
    names text NOT NULL,
    ca text,
    profile text,
    key_type text,
    solver text,
    credential bigint,
    -- seconds since the Unix epoch
    due bigint,
    turn bigint NOT NULL,
    attempts bigint NOT NULL,
    error_at bigint,
    error text,
    key_id bigint,
    nonce bytea,
    bytes bytea
) WITH (autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX lineages_by_due ON sekisho.lineages (due, turn, name) WHERE due IS NOT NULL;
CREATE INDEX lineages_by_turn ON sekisho.lineages (turn, due, name) WHERE due IS NOT NULL;
CREATE INDEX lineages_by_credential ON sekisho.lineages (credential)
    WHERE credential IS NOT NULL;
CREATE INDEX lineages_failing ON sekisho.lineages (name) WHERE attempts > 0;

CREATE TABLE sekisho.lineage_claims (
    name text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    until_ms bigint NOT NULL,
    epoch bigint NOT NULL
);
INSERT INTO sekisho.lineages (name, tenant, names, ca, credential, due, turn, attempts)
    VALUES ('e.example', 'customer', 'e.example', 'internal', 7, 5, 6, 0);
UPDATE sekisho.meta SET version = 3;
