import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, QueryBoolean, Strict } from '../../shared/schemas.ts';

const EPOCH = '019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b';

const ProxyShard = Type.Object(
  {
    shard: Type.Integer({ minimum: 0 }),
    recorded_n: Type.Integer({ description: 'The ledger has all events of the shard up to this number.' }),
    last_n: Nullable(
      Type.Integer({ description: 'The number of the last event, once the proxy reported it.' }),
    ),
    missing: Type.Integer({
      description: 'Events that must exist, by later events or by last_n, but are not in the ledger.',
    }),
    missing_ranges: Type.Array(Type.String({ examples: ['7-9'] }), {
      description: 'The numbers of the missing events: the first 20 ranges.',
    }),
    gap_since: Nullable(DateTime),
  },
  { title: 'ProxyShard' },
);
export type ProxyShard = Static<typeof ProxyShard>;

export const ProxyUsage = Type.Object(
  {
    state: OneOf(['open', 'closed', 'lost', 'retired'], {
      title: 'ProxyUsageState',
      description:
        'open: more usage may arrive; closed: the ledger has all of it; lost: the proxy was silent for 25 minutes, and its usage may be missing; retired: an operator accepted that loss.',
    }),
    mark_at: Type.String({
      format: 'date-time',
      description: 'The watermark: all usage that the proxy settled before this time is in the ledger.',
    }),
    ended_at: Nullable(DateTime),
    superseded_by: Nullable(Type.String({ description: 'The id of the proxy that took over its spool.' })),
    retired_by: Nullable(Type.String({ description: 'The principal that accepted its loss.' })),
    shards: Type.Array(ProxyShard, { description: 'One entry for each shard that the proxy wrote to.' }),
    advice: Nullable(
      Type.String({ description: 'What an operator can do; null if there is nothing to do.' }),
    ),
  },
  { title: 'ProxyUsage' },
);
export type ProxyUsage = Static<typeof ProxyUsage>;

export const ProxyResource = Type.Object(
  {
    id: Type.String({ examples: [EPOCH] }),
    name: Type.String({ description: 'The host or pod that it runs on.' }),
    version: Type.String({ description: 'Empty if only its usage is still known.' }),
    applied_revision: Type.Integer(),
    lag: Type.Integer({ description: 'How many revisions it is behind.' }),
    in_flight_requests: Type.Integer(),
    waiting_usage_bytes: Type.Integer({ description: 'Bytes of usage in its spool that the ledger lacks.' }),
    usage_limit_bytes: Nullable(
      Type.Integer({
        description:
          'The most bytes that its spool may take; a full one refuses requests. Null if it did not report that.',
      }),
    ),
    connected_at: DateTime,
    last_seen_at: DateTime,
    may_serve_until: DateTime,
    producer_id: Nullable(
      Type.String({ description: 'The spool that it writes to; null if it did not report one.' }),
    ),
    usage: Nullable(ProxyUsage),
  },
  { title: 'Proxy' },
);
export type ProxyResource = Static<typeof ProxyResource>;

export const ProxyListQuery = Strict({
  ...PageQuery,
  all: Type.Optional(
    QueryBoolean('Whether to list proxies that are gone and whose usage is all in the ledger, too.'),
  ),
});
