-- Partitions the payloads by time, so that retention drops whole partitions. `log/partitions.rs` explains it. The table
-- has the same name and columns as before, so statements of running gateways of the previous version go on.
--
-- The existing table becomes the first partition. Its rows are not copied. PostgreSQL reads them once, to check that they
-- are in the range. The range ends at a whole hour, one to two hours from now. A bit shift by 21 makes a key of
-- milliseconds.

-- A backup may hold the table for long. All gateways would wait behind this, so rather fail, and start again later.
SET LOCAL lock_timeout = '3s';
ALTER TABLE payloads RENAME TO payloads_first;
CREATE TABLE payloads (key BIGINT PRIMARY KEY, args TEXT, result TEXT) PARTITION BY RANGE (key);
-- For every key without another partition, so that no write fails for lack of one.
CREATE TABLE payloads_rest PARTITION OF payloads DEFAULT;
-- The clock of a gateway may have been ahead.
WITH ahead AS (
    DELETE FROM payloads_first
    WHERE key >= ((CAST(floor(extract(epoch FROM now()) / 3600) AS BIGINT) + 2) * 3600000) << 21
    RETURNING key, args, result
)
INSERT INTO payloads_rest (key, args, result) SELECT key, args, result FROM ahead;
ALTER TABLE payloads ATTACH PARTITION payloads_first FOR VALUES FROM (MINVALUE)
    TO (((CAST(floor(extract(epoch FROM now()) / 3600) AS BIGINT) + 2) * 3600000) << 21);

-- Roles that may read the payloads, such as an auditor's, still may.
DO $$
DECLARE
    allowed record;
BEGIN
    FOR allowed IN
        SELECT acl.privilege_type, acl.grantee FROM pg_class, aclexplode(pg_class.relacl) AS acl
        WHERE pg_class.oid = CAST('payloads_first' AS regclass) AND acl.grantee <> pg_class.relowner
    LOOP
        EXECUTE format('GRANT %s ON payloads TO %s', allowed.privilege_type,
            CASE WHEN allowed.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(allowed.grantee)) END);
    END LOOP;
END $$;

SET LOCAL lock_timeout = DEFAULT;
UPDATE schema_version SET version = 17;
