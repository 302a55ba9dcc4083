-- The step of version 4, and what that version wrote.
-- URL of the CA's directory
ALTER TABLE sekisho.lineages ADD COLUMN issued_by text;
UPDATE sekisho.lineages SET issued_by = 'https://ca.example/dir';
UPDATE sekisho.meta SET version = 4;
