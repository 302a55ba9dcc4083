-- What version 2 of the tables added to version 1.
ALTER TABLE sekisho.meta ADD COLUMN compatible integer NOT NULL DEFAULT 2;
ALTER TABLE sekisho.changes ADD COLUMN mark bigint NOT NULL
    DEFAULT ((random() - 0.5) * 18446744073709549568)::bigint;
UPDATE sekisho.meta SET version = 2;
UPDATE sekisho.credentials SET renew_at = 7;
