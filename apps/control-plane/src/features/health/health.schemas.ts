import { type Static, Type } from 'typebox';
import { Page } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf } from '../../shared/schemas.ts';

const BreakerState = OneOf(['closed', 'half_open', 'open', 'dead'], {
  title: 'BreakerState',
  description:
    'closed: requests go there; open: too many attempts failed, so none goes there for seconds; half_open: one goes there as a try; dead: the vendor refused the credential, so one goes there a minute.',
});

const ProxyBreaker = Type.Object(
  {
    proxy_id: Type.String(),
    proxy_name: Type.String(),
    state: BreakerState,
    down_for_ms: Type.Integer({ description: 'How long it has been open or dead; 0 if it is half-open.' }),
  },
  { title: 'ProxyBreaker' },
);

const ConnectorHealth = Type.Object(
  {
    connector_id: Type.String(),
    name: Type.String(),
    provider: Type.String(),
    enabled: Type.Boolean(),
    usable: Type.Boolean({ description: 'Whether requests can go through it when it is enabled.' }),
    unusable_reason: Nullable(Type.String()),
    state: Type.Unsafe<Static<typeof BreakerState>>({
      ...BreakerState,
      description: 'The worst that a proxy reports; closed if none reports anything.',
    }),
    proxies: Type.Array(ProxyBreaker, {
      description: 'The proxies for which its circuit breaker is not closed, the worst first; at most 20.',
    }),
    not_closed_at: Type.Integer({ description: 'How many proxies those are.' }),
    attempts: Type.Integer({ description: 'Attempts since attempts_since, of the newest 20,000 of all.' }),
    failed_attempts: Type.Integer({
      description: 'Of them, those that failed at the vendor or on the way there.',
    }),
  },
  { title: 'ConnectorHealth' },
);

export const ConnectorHealthReport = Type.Object(
  {
    ...Page(ConnectorHealth).properties,
    serving_proxies: Type.Integer({ description: 'Proxies that may serve now.' }),
    attempts_since: DateTime,
  },
  { title: 'ConnectorHealthReport' },
);
export type ConnectorHealthReport = Static<typeof ConnectorHealthReport>;

export const LedgerArchive = Type.Object(
  {
    archived_before: Type.Unsafe<string | null>({
      ...Nullable(DateTime),
      description:
        'Usage that was recorded on days before this is in the archive, and not in Postgres; null: none is.',
    }),
    ran_at: Nullable(DateTime),
    due_days: Type.Integer({
      description:
        'Days that are old enough to be archived, and were still in Postgres when the archiver last ran.',
    }),
    problems: Type.Array(Type.String(), { description: 'What to look at, a sentence each.' }),
  },
  { title: 'LedgerArchive' },
);
export type LedgerArchive = Static<typeof LedgerArchive>;

export const LedgerState = Type.Object(
  {
    as_of: Type.String({
      format: 'date-time',
      description: 'The watermark: all usage that proxies settled before this time is in the ledger.',
    }),
    lag_ms: Type.Integer({ description: 'The age of the watermark.' }),
    open_proxies: Type.Integer({ description: 'Proxies of which more usage may arrive.' }),
    lost_proxies: Type.Integer({ description: 'Proxies that went silent; their usage may be missing.' }),
    gaps: Type.Integer({ description: 'Places at which numbered events are missing.' }),
    longest_gap_ms: Type.Integer(),
    quarantined: Type.Integer({
      description: 'Usage that the ledger refused and that waits for a decision.',
    }),
    serving_proxies: Type.Integer({ description: 'Proxies that may serve now.' }),
    silent_proxies: Type.Integer({ description: 'Of them, those not heard of for ten seconds.' }),
    waiting_usage_bytes: Type.Integer({
      description: 'Bytes of usage in the spools of all proxies that the ledger lacks.',
    }),
    archive: Type.Unsafe<LedgerArchive | null>({
      ...Nullable(LedgerArchive),
      description: 'The archive of old days; null if there is none.',
    }),
  },
  { title: 'LedgerState' },
);
export type LedgerState = Static<typeof LedgerState>;
