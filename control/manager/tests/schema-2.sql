PRAGMA application_id = 1416131149;
PRAGMA user_version = 2;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE generation (
        id INTEGER PRIMARY KEY,
        chain TEXT NOT NULL,
        number INTEGER NOT NULL CHECK (number > 0),
        time_ms INTEGER NOT NULL,
        author TEXT NOT NULL,
        spec TEXT,
        checksum INTEGER NOT NULL,
        UNIQUE (chain, number)
    ) STRICT;
INSERT INTO generation VALUES(1,'dns',1,1795674550910,'uid 0','{"configuration":"Idle -> Discard;","threads":2,"stopped":true}',-6581519772202500232);
INSERT INTO generation VALUES(2,'old',1,1795674550914,'uid 0','{"configuration":"Idle -> Discard;"}',-285127838526501034);
INSERT INTO generation VALUES(3,'web',1,1795674550916,'uid 0','{"configuration":"InfiniteSource(LIMIT $N, STOP true) -> c0 :: Counter -> Discard;\n","variables":{"N":"1000"}}',-7984751248121126570);
INSERT INTO generation VALUES(4,'web',2,1795674550987,'uid 0','{"configuration":"InfiniteSource(LIMIT $N, STOP true) -> c0 :: Counter -> Discard;\n","variables":{"N":"2000"}}',7472805853307650283);
INSERT INTO generation VALUES(5,'old',2,1795674551001,'uid 0',NULL,820455180726568148);
CREATE TABLE head (
        chain TEXT PRIMARY KEY,
        number INTEGER NOT NULL,
        live INTEGER NOT NULL,
        FOREIGN KEY (chain, number) REFERENCES generation (chain, number)
    ) STRICT, WITHOUT ROWID;
INSERT INTO head VALUES('dns',1,1);
INSERT INTO head VALUES('old',2,0);
INSERT INTO head VALUES('web',2,1);
CREATE TABLE credential (
        name TEXT PRIMARY KEY,
        role TEXT NOT NULL,
        kind TEXT NOT NULL,
        hash BLOB NOT NULL CHECK (length(hash) = 32),
        created_ms INTEGER NOT NULL,
        expires_ms INTEGER,
        author TEXT NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
INSERT INTO credential VALUES('ci','view','token',X'506afae635e511a9a696bb16dba0fc863e7ceb4a75e250b5343cfd6eb9f9a761',1795674551213,NULL,'uid 0',-4612555866942579891);
CREATE INDEX head_live ON head (chain) WHERE live = 1;
COMMIT;
