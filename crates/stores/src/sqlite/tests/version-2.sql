-- What version 2 of the tables added to version 1.
BEGIN TRANSACTION;
ALTER TABLE meta ADD COLUMN compatible INTEGER NOT NULL DEFAULT 2;
ALTER TABLE changes RENAME TO changes_1;
CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    removed INTEGER NOT NULL,
    mark INTEGER NOT NULL DEFAULT (random())
) STRICT;
INSERT INTO changes (number, subject, kind, key, removed)
    SELECT number, subject, kind, key, removed FROM changes_1;
DROP TABLE changes_1;
UPDATE credentials SET renew_at = 7;
COMMIT;
PRAGMA user_version = 2;
