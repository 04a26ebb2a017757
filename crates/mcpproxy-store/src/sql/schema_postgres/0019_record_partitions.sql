-- Partitions the records by time, so that retention drops whole partitions. `log/partitions.rs` explains it. The table has
-- the same name and columns as before, so statements of running gateways of the previous version go on.
--
-- The existing table becomes the first partition. Its rows are not copied, and its indexes are not built again. PostgreSQL
-- reads the rows once, to check that they are in the range.

-- A backup may hold the table for long. All gateways would wait behind this, so rather fail, and start again later.
SET LOCAL lock_timeout = '3s';

-- `schema/0019_record_partitions.sql` explains these two.
CREATE TABLE chain_heads (
    chain BIGINT NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL,
    CONSTRAINT one_writer_per_chain CHECK (seq >= 0)
);
CREATE TABLE planned_removals (
    chain BIGINT NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    note TEXT NOT NULL,
    stubs TEXT NOT NULL
);

ALTER TABLE records RENAME TO records_first;
ALTER INDEX records_pkey RENAME TO records_first_pkey;
ALTER INDEX records_seq RENAME TO records_first_seq;
ALTER INDEX records_end_seq RENAME TO records_first_end_seq;
ALTER INDEX records_intent_type RENAME TO records_first_intent_type;
ALTER INDEX records_server RENAME TO records_first_server;
ALTER INDEX records_tool RENAME TO records_first_tool;
ALTER INDEX records_agent RENAME TO records_first_agent;
ALTER INDEX records_risk RENAME TO records_first_risk;
ALTER INDEX records_kind RENAME TO records_first_kind;
ALTER INDEX records_status RENAME TO records_first_status;

CREATE TABLE records (LIKE records_first) PARTITION BY RANGE (key);
ALTER TABLE records ADD PRIMARY KEY (key);
CREATE INDEX records_intent_type ON records (intent_type, key) WHERE intent_type <> 'read';
CREATE INDEX records_server ON records (server, key) WHERE server IS NOT NULL;
CREATE INDEX records_tool ON records (tool, key) WHERE tool IS NOT NULL;
CREATE INDEX records_agent ON records (agent, key) WHERE agent IS NOT NULL;
CREATE INDEX records_risk ON records (risk, key) WHERE risk <> 'low';
CREATE INDEX records_kind ON records (kind, key) WHERE kind <> 'call';
CREATE INDEX records_status ON records (status, key) WHERE status <> 'success';

-- Takes every key after the other partitions, so that no write fails for lack of one.
CREATE TABLE records_last (LIKE records INCLUDING INDEXES);
CREATE UNIQUE INDEX ON records_last (chain, seq);
CREATE UNIQUE INDEX ON records_last (chain, end_seq) WHERE end_seq IS NOT NULL;

DO $$
DECLARE
    -- Ranges end at whole hours. A gateway of the previous version relies on the unique positions of a single table. So
    -- with records, the first partition lasts for a week, which is longer than a rolling update.
    hours CONSTANT BIGINT := CASE WHEN EXISTS (SELECT FROM records_first) THEN 7 * 24 ELSE 2 END;
    -- A bit shift by 21 makes a key of milliseconds.
    bound CONSTANT BIGINT :=
        ((CAST(floor(extract(epoch FROM now()) / 3600) AS BIGINT) + hours) * 3600000) << 21;
    allowed record;
BEGIN
    -- The clock of a gateway may have been ahead.
    WITH ahead AS (DELETE FROM records_first WHERE key >= bound RETURNING *)
    INSERT INTO records_last SELECT * FROM ahead;
    EXECUTE format('ALTER TABLE records ATTACH PARTITION records_first FOR VALUES FROM (MINVALUE) TO (%s)', bound);
    EXECUTE format('ALTER TABLE records ATTACH PARTITION records_last FOR VALUES FROM (%s) TO (MAXVALUE)', bound);
    -- Roles that may read the records, such as an auditor's, still may.
    FOR allowed IN
        SELECT acl.privilege_type, acl.grantee FROM pg_class, aclexplode(pg_class.relacl) AS acl
        WHERE pg_class.oid = CAST('records_first' AS regclass) AND acl.grantee <> pg_class.relowner
    LOOP
        EXECUTE format('GRANT %s ON records TO %s', allowed.privilege_type,
            CASE WHEN allowed.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(allowed.grantee)) END);
    END LOOP;
END $$;

SET LOCAL lock_timeout = DEFAULT;
UPDATE schema_version SET version = 19;
