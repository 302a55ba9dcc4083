-- A store as version 1 of the tables had it: two hosts of one credential, a redirect, a check value.
CREATE SCHEMA sekisho;
CREATE TABLE sekisho.changes (
    number bigint NOT NULL,
    subject text NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    removed boolean NOT NULL
);
CREATE TABLE sekisho.credentials (
    id bigint NOT NULL,
    version bigint NOT NULL,
    key_type text NOT NULL,
    leaf bytea NOT NULL,
    issuer bigint,
    key_id bigint NOT NULL,
    nonce bytea NOT NULL,
    key bytea NOT NULL,
    not_before bigint NOT NULL,
    not_after bigint NOT NULL,
    renew_at bigint
);
CREATE TABLE sekisho.documents (
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    key_id bigint NOT NULL,
    nonce bytea NOT NULL,
    bytes bytea NOT NULL,
    expires bigint,
    version bigint NOT NULL
);
CREATE TABLE sekisho.fence (
    one boolean NOT NULL,
    token bigint NOT NULL,
    CONSTRAINT fence_one_check CHECK (one)
);
CREATE TABLE sekisho.hosts (
    pattern text NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    tenant text NOT NULL,
    site_format bigint,
    site text,
    tls text NOT NULL,
    disabled boolean NOT NULL,
    ecdsa bigint,
    ed25519 bigint,
    rsa bigint,
    version bigint NOT NULL
);
CREATE TABLE sekisho.issuers (
    id bigint NOT NULL,
    digest bytea NOT NULL,
    chain bytea NOT NULL
);
ALTER TABLE sekisho.issuers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sekisho.issuers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sekisho.leases (
    name text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL,
    token bigint NOT NULL,
    expires_ms bigint NOT NULL
);
CREATE TABLE sekisho.meta (
    one boolean NOT NULL,
    version integer NOT NULL,
    catalog bytea NOT NULL,
    log bytea NOT NULL,
    number bigint NOT NULL,
    forgotten bigint NOT NULL,
    CONSTRAINT meta_one_check CHECK (one)
);
INSERT INTO sekisho.changes VALUES (1, 'document', 'check', '', false);
INSERT INTO sekisho.changes VALUES (2, 'host', '', 'a.example', false);
INSERT INTO sekisho.changes VALUES (3, 'host', '', '*.b.example', false);
INSERT INTO sekisho.changes VALUES (4, 'host', '', 'c.example', false);
INSERT INTO sekisho.credentials VALUES (3765036415737465612, 1, 'ecdsa', '\x308201a230820148a00302010202140c34340e92aeede34373f9d779c0fafe3a5e8485300a06082a8648ce3d04030230143112301006035504030c09612e6578616d706c653020170d3236313132323031303033395a180f32313236313032393031303033395a30143112301006035504030c09612e6578616d706c653059301306072a8648ce3d020106082a8648ce3d03010703420004bf674b2b62e50c7d3c6dda289e2c3975c7c25fd0904cc5dfb1ada255f11c9d3e2af532f12b4ffb431bfed99c2085dd44232dbef8185ecb005bca774bbfe22b56a3763074301d0603551d0e041604149c22244483d669bdbd0da5b7434f37b6e1829f86301f0603551d230418301680149c22244483d669bdbd0da5b7434f37b6e1829f86300f0603551d130101ff040530030101ff30210603551d11041a30188209612e6578616d706c65820b2a2e622e6578616d706c65300a06082a8648ce3d040302034800304502206b1706859ee7808de92abe4b46a64c8effc7ab56482cf1f330c5e93797de24cc022100dbd795eaf5a5032bac17b3ee0719dbf248e6a8204e9b8483143b30bd22ffe3e1', NULL, 1168011095, '\x5af94027574cc4fb180c6020', '\x5e1905dbc6d6fcdabba190f16633df17e1d4200cdca05ed2d4fdd6b08a9993c8ea2378180bd2c36fd565286f34d3a42ea0dbbdd4537672252f1fe6e473bbf67baa0e382528900d744c8cb4333ae5cb98274add5d6e80a272d6e55e8cde5cc5c35923cb0367b87fbb98af6ad578414f9ed3ad2e3c1a8f8ea2bb159d20ce82208ae704abc031fd4d2e20d32ddde1d04fbf215bdc48506ab80f0504', 1795309239, 4948909239, NULL);
INSERT INTO sekisho.documents VALUES ('check', '', 1168011095, '\xcd26cffddbf44e1d6e33d626', '\x37c4728d5795f3802bf3c7db9902f8a3b31f0ae392', NULL, 1);
INSERT INTO sekisho.fence VALUES (true, 0);
INSERT INTO sekisho.hosts VALUES ('*.b.example', NULL, '', NULL, NULL, '1.2', false, 3765036415737465612, NULL, NULL, 3);
INSERT INTO sekisho.hosts VALUES ('a.example', 'example', '', NULL, NULL, '1.2', false, 3765036415737465612, NULL, NULL, 2);
INSERT INTO sekisho.hosts VALUES ('c.example', 'example', '', 1, '{"redirect":"https://a.example"}', '1.2', false, NULL, NULL, NULL, 4);
INSERT INTO sekisho.meta VALUES (true, 1, '\xe2e2890bcb72234cf4d3b740f915379c', '\xa808a52ccaee4b53597ab9ba07afd3ca', 4, 0);
SELECT pg_catalog.setval('sekisho.issuers_id_seq', 1, false);
ALTER TABLE ONLY sekisho.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (number);
ALTER TABLE ONLY sekisho.credentials
    ADD CONSTRAINT credentials_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sekisho.documents
    ADD CONSTRAINT documents_pkey PRIMARY KEY (kind, key);
ALTER TABLE ONLY sekisho.fence
    ADD CONSTRAINT fence_pkey PRIMARY KEY (one);
ALTER TABLE ONLY sekisho.hosts
    ADD CONSTRAINT hosts_pkey PRIMARY KEY (pattern);
ALTER TABLE ONLY sekisho.issuers
    ADD CONSTRAINT issuers_digest_key UNIQUE (digest);
ALTER TABLE ONLY sekisho.issuers
    ADD CONSTRAINT issuers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sekisho.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (name);
ALTER TABLE ONLY sekisho.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (one);
CREATE INDEX documents_expiring ON sekisho.documents USING btree (expires) WHERE (expires IS NOT NULL);
CREATE INDEX due ON sekisho.credentials USING btree (renew_at, id) WHERE (renew_at IS NOT NULL);
CREATE INDEX hosts_below ON sekisho.hosts USING btree (parent) WHERE (parent IS NOT NULL);
CREATE INDEX hosts_by_ecdsa ON sekisho.hosts USING btree (ecdsa, pattern) WHERE (ecdsa IS NOT NULL);
CREATE INDEX hosts_by_ed25519 ON sekisho.hosts USING btree (ed25519, pattern) WHERE (ed25519 IS NOT NULL);
CREATE INDEX hosts_by_rsa ON sekisho.hosts USING btree (rsa, pattern) WHERE (rsa IS NOT NULL);
