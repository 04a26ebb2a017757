-- For summaries, which read only the series that have a record since the beginning of their range.
CREATE INDEX tally_series_last ON tally_series (last_hour);

-- The schema version that the gateway's program knows. NULL for programs that do not announce it.
ALTER TABLE gateways ADD COLUMN database_version INTEGER;

UPDATE schema_version SET version = 16;
