-- The step of version 4, and what that version wrote.
-- URL of the CA's directory
ALTER TABLE lineages ADD COLUMN issued_by TEXT;
UPDATE lineages SET issued_by = 'https://ca.example/dir';
PRAGMA user_version = 4;
