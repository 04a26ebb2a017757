-- With PostgreSQL, the payloads are partitioned by time: `schema_postgres/0017_payload_partitions.sql`. SQLite has no
-- partitions, so nothing changes here.

UPDATE schema_version SET version = 17;
