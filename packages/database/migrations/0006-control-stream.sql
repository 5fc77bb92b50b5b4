-- What each revision changed, for proxies that follow. Old ones are compacted: a proxy that missed them starts anew.
CREATE TABLE changes (
  revision bigint PRIMARY KEY,
  -- 'key', 'policy', 'principal', 'connector', …: the first word of the audit log's action.
  kind text NOT NULL,
  resource_id text NOT NULL,
  -- Which keys it touches beyond its own id: 'all' where a default policy changed.
  reach text NOT NULL DEFAULT 'own' CHECK (reach IN ('own', 'all')),
  committed_at timestamptz NOT NULL DEFAULT now()
);

-- The proxies that watch or watched. Not worth a write-ahead log: a crash only makes operators wait for the next second.
CREATE UNLOGGED TABLE proxies (
  id text PRIMARY KEY,
  name text NOT NULL,
  version text NOT NULL,
  applied_revision bigint NOT NULL,
  in_flight_requests integer NOT NULL DEFAULT 0,
  waiting_usage_bytes bigint NOT NULL DEFAULT 0,
  connected_at timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,
  -- Until then it may serve what it knows, whatever becomes of its stream. Written before it is granted.
  may_serve_until timestamptz NOT NULL
);
