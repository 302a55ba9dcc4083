-- A store as version 1 of the tables had it: two hosts of one credential, a redirect, a check value.
BEGIN TRANSACTION;
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    catalog BLOB NOT NULL,
    log BLOB NOT NULL,
    -- the number of the last change
    number INTEGER NOT NULL,
    -- changes up to this number are no longer kept
    forgotten INTEGER NOT NULL,
    -- the last fencing token
    token INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES(1,X'1a811173b9f85f803f0b2fa695dd404c',X'86b74c68684806235018cf01f67243a2',4,0,0);
CREATE TABLE issuers (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    chain BLOB NOT NULL
) STRICT;
CREATE TABLE credentials (
    id INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    key_type TEXT NOT NULL,
    leaf BLOB NOT NULL,
    issuer INTEGER,
    key_id INTEGER NOT NULL,
    nonce BLOB NOT NULL,
    key BLOB NOT NULL,
    not_before INTEGER NOT NULL,
    not_after INTEGER NOT NULL,
    renew_at INTEGER
) STRICT;
INSERT INTO credentials VALUES(3765036362725789067,1,'ecdsa',X'308201a230820148a00302010202140c34340e92aeede34373f9d779c0fafe3a5e8485300a06082a8648ce3d04030230143112301006035504030c09612e6578616d706c653020170d3236313132323031303033395a180f32313236313032393031303033395a30143112301006035504030c09612e6578616d706c653059301306072a8648ce3d020106082a8648ce3d03010703420004bf674b2b62e50c7d3c6dda289e2c3975c7c25fd0904cc5dfb1ada255f11c9d3e2af532f12b4ffb431bfed99c2085dd44232dbef8185ecb005bca774bbfe22b56a3763074301d0603551d0e041604149c22244483d669bdbd0da5b7434f37b6e1829f86301f0603551d230418301680149c22244483d669bdbd0da5b7434f37b6e1829f86300f0603551d130101ff040530030101ff30210603551d11041a30188209612e6578616d706c65820b2a2e622e6578616d706c65300a06082a8648ce3d040302034800304502206b1706859ee7808de92abe4b46a64c8effc7ab56482cf1f330c5e93797de24cc022100dbd795eaf5a5032bac17b3ee0719dbf248e6a8204e9b8483143b30bd22ffe3e1',NULL,1168011095,X'edec6e81b4f9f4d03075b274',X'6143c3e5a457232be96c9131208ce098f3d23e496132e0f8b9b3fc82c2efd3e386f83db9d8224409ee1bbf51b404f9ccada02a633e3859a84046042191bd208aa14a98955aaf08b66171f3c703ad0c8b853b2ec1d81b223f8b855b4dc20cabbf225feb4ae8baa153f5a3d1a4bd9427071792e1258d0502123d5f6888da60d05e4c08ba3d904fe96700343e8e179c9567d5ac3e2213b4e7c17035',1795309239,4948909239,NULL);
CREATE TABLE hosts (
    pattern TEXT PRIMARY KEY,
    -- what stands behind the first dot of an exact name
    parent TEXT,
    tenant TEXT NOT NULL,
    site_format INTEGER,
    site TEXT,
    tls TEXT NOT NULL,
    disabled INTEGER NOT NULL,
    ecdsa INTEGER,
    ed25519 INTEGER,
    rsa INTEGER,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO hosts VALUES('*.b.example',NULL,'',NULL,NULL,'1.2',0,3765036362725789067,NULL,NULL,3);
INSERT INTO hosts VALUES('a.example','example','',NULL,NULL,'1.2',0,3765036362725789067,NULL,NULL,2);
INSERT INTO hosts VALUES('c.example','example','',1,'{"redirect":"https://a.example"}','1.2',0,NULL,NULL,NULL,4);
CREATE TABLE documents (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    key_id INTEGER NOT NULL,
    nonce BLOB NOT NULL,
    bytes BLOB NOT NULL,
    expires INTEGER,
    version INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
INSERT INTO documents VALUES('check','',1168011095,X'f0e314279c5b736d0a821ab3',X'432044d7b4f2d0a1894944eb577a3c9d8a56600371',NULL,1);
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    token INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    -- 'host', 'credential' or 'document'
    subject TEXT NOT NULL,
    -- a document's kind, else empty
    kind TEXT NOT NULL,
    -- a pattern, an id or a document's key
    key TEXT NOT NULL,
    removed INTEGER NOT NULL
) STRICT;
INSERT INTO changes VALUES(1,'document','check','',0);
INSERT INTO changes VALUES(2,'host','','a.example',0);
INSERT INTO changes VALUES(3,'host','','*.b.example',0);
INSERT INTO changes VALUES(4,'host','','c.example',0);
CREATE INDEX due ON credentials (renew_at) WHERE renew_at IS NOT NULL;
CREATE INDEX hosts_below ON hosts (parent) WHERE parent IS NOT NULL;
CREATE INDEX hosts_by_ecdsa ON hosts (ecdsa) WHERE ecdsa IS NOT NULL;
CREATE INDEX hosts_by_ed25519 ON hosts (ed25519) WHERE ed25519 IS NOT NULL;
CREATE INDEX hosts_by_rsa ON hosts (rsa) WHERE rsa IS NOT NULL;
CREATE INDEX documents_expiring ON documents (expires) WHERE expires IS NOT NULL;
COMMIT;
PRAGMA application_id = 1936026473;
PRAGMA user_version = 1;
