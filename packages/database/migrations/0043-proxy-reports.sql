-- What proxies report of themselves beside their load: how large their spool may get, and which connectors they send nothing to.
ALTER TABLE proxies
  -- 0: the proxy is of an earlier release.
  ADD COLUMN usage_limit_bytes bigint NOT NULL DEFAULT 0,
  -- At most 100: connector_id, state, down_for_ms.
  ADD COLUMN connectors jsonb NOT NULL DEFAULT '[]';
