import type { Database } from '@weighbridge/database';
import { type NewWebhookEvent, recordWebhookEvents } from '@weighbridge/ledger';
import type { Logger, ServiceContext } from '@weighbridge/runtime';
import { type RawBuilder, sql } from 'kysely';
import { repeat } from '../../shared/repeat.ts';
import { isOfModel } from '../../shared/storedPrice.ts';
import { findReportedConnectors } from '../proxies/proxyAdmin.service.ts';

export interface ConditionDeps {
  readonly db: Database;
  readonly now: () => Date;
}

const EVERY_MS = 60_000;
const DAY_MS = 24 * 3_600_000;
const EXPIRES_WITHIN_MS = 7 * DAY_MS;
const STALE_AFTER_DAYS = 90;
const DOWN_WITHIN_MS = 2 * 60_000;
const DOWN_AFTER_FAILURES = 5;
/** A breaker that closes sooner was no outage. */
const DOWN_FOR_MS = 30_000;
/** Of one kind, at once; the rest follows. */
const MAX_EVENTS = 1_000;

/** Has webhooks told of what lasts, rather than happens: each control plane looks, and each thing is recorded once. */
export function watchConditions(
  deps: ConditionDeps & { readonly logger: Logger },
  context: Pick<ServiceContext, 'onShutdown'>,
): void {
  const task = {
    name: 'conditions for webhooks',
    everyMs: EVERY_MS,
    run: () => recordConditions(deps),
    onFailure: 'failed to check keys, prices and connectors for webhooks; trying again',
  };
  repeat(task, deps.logger, context);
}

export async function recordConditions({ db, now }: ConditionDeps): Promise<void> {
  const wanted = await db.selectFrom('webhooks').select('id').where('enabled', '=', true).executeTakeFirst();
  if (!wanted) return;
  const at = now();
  for (const read of [expiringKeys, missingPrices, stalePrices, downConnectors]) {
    await recordWebhookEvents(db, await read(db, at), at);
  }
}

/** What lasts now: prices that are missing or old, connectors that are down. */
export async function currentConditions({ db, now }: ConditionDeps): Promise<NewWebhookEvent[]> {
  const at = now();
  return [...(await downConnectors(db, at)), ...(await missingPrices(db)), ...(await stalePrices(db, at))];
}

/** Keys in use that expire within a week and were not reported. */
async function expiringKeys(db: Database, now: Date): Promise<NewWebhookEvent[]> {
  const { rows } = await sql<{ id: string; principal_id: string; expires_at: Date }>`
    SELECT id, principal_id, expires_at FROM keys
    WHERE expires_at > ${now} AND expires_at <= ${new Date(now.getTime() + EXPIRES_WITHIN_MS)}
      AND revoked_at IS NULL AND NOT disabled
      AND NOT EXISTS (SELECT FROM playground_keys WHERE key_id = keys.id) AND NOT EXISTS (
        SELECT FROM webhook_events AS event
        WHERE event.type = 'key.expiring' AND event.once_key = ${onceKeyOfKey()}
      )
    ORDER BY expires_at LIMIT ${MAX_EVENTS}`.execute(db);
  return rows.map(({ id, principal_id, expires_at }) => ({
    type: 'key.expiring',
    onceKey: `${id}/${expires_at.getTime()}`,
    data: { key_id: id, principal_id, expires_at: expires_at.toISOString() },
  }));
}

function onceKeyOfKey(): RawBuilder<string> {
  return sql<string>`keys.id || '/' || (extract(epoch FROM date_trunc('milliseconds', keys.expires_at)) * 1000)::bigint`;
}

/** Models that a connector names and that can't be used, since they have no price. */
async function missingPrices(db: Database): Promise<NewWebhookEvent[]> {
  const { rows } = await sql<{ connector_id: string; model: string }>`
    SELECT connectors.id AS connector_id, models.id AS model
    FROM connectors JOIN models ON models.provider = connectors.provider
      AND (models.id = ANY (connectors.models) OR connectors.upstream_names ? models.id)
    WHERE connectors.enabled AND connectors.deleted_at IS NULL AND NOT connectors.withdrawn
      AND models.deleted_at IS NULL AND NOT models.disabled
      AND coalesce((
        SELECT ended FROM model_prices WHERE ${isOfModel} ORDER BY version DESC LIMIT 1
      ), true)
      AND coalesce((
        SELECT ended FROM connector_prices AS price
        WHERE price.connector_id = connectors.id AND ${isOfModel} ORDER BY version DESC LIMIT 1
      ), true)
    ORDER BY models.id, connectors.id LIMIT ${MAX_EVENTS}`.execute(db);
  return rows.map(({ connector_id, model }) => ({
    type: 'price.missing',
    onceKey: `${connector_id}/${model}`,
    data: { connector_id, model },
  }));
}

/** Prices of models that can be used which nothing has confirmed for long: one event a month for each origin of prices. */
async function stalePrices(db: Database, now: Date): Promise<NewWebhookEvent[]> {
  const { rows } = await sql<{ origin: string; models: number; model: string; priced_at: Date }>`
    SELECT origin, count(*)::integer AS models, min(priced_at) AS priced_at,
      (array_agg(id ORDER BY priced_at, id))[1] AS model
    FROM (
      SELECT models.id, newest.origin, greatest(
        CASE WHEN newest.origin = 'catalog' THEN coalesce(models.shipped_priced_at, newest.created_at) ELSE newest.created_at END,
        CASE WHEN newest.origin <> 'operator' AND models.feed_confirmed_version = newest.version THEN models.feed_confirmed_at END
      ) AS priced_at
      FROM models
      CROSS JOIN LATERAL (
        SELECT origin, version, created_at, ended FROM model_prices
        WHERE ${isOfModel} ORDER BY version DESC LIMIT 1
      ) AS newest
      WHERE models.deleted_at IS NULL AND NOT models.disabled AND NOT newest.ended AND models.provider <> 'mock'
        AND EXISTS (
          SELECT FROM connectors
          WHERE connectors.provider = models.provider AND connectors.enabled
            AND connectors.deleted_at IS NULL AND NOT connectors.withdrawn
        )
    ) AS priced
    WHERE priced_at < ${new Date(now.getTime() - STALE_AFTER_DAYS * DAY_MS)}
    GROUP BY origin`.execute(db);
  const month = now.toISOString().slice(0, 'yyyy-mm'.length);
  return rows.map(({ origin, models, model, priced_at }) => ({
    type: 'price.stale',
    onceKey: `${origin}/${month}`,
    data: { origin, models, model, priced_at: priced_at.toISOString(), age_days: STALE_AFTER_DAYS },
  }));
}

/** Connectors that serve nothing, by their recent attempts or by what proxies report of them: one event an hour each. */
async function downConnectors(db: Database, now: Date): Promise<NewWebhookEvent[]> {
  const failing = await failingConnectors(db, now);
  const known = new Set(failing.map(({ connector_id }) => connector_id));
  const left = await leftConnectors(db, now);
  const hour = now.toISOString().slice(0, 'yyyy-mm-ddThh'.length);
  return [...failing, ...left.filter(({ connector_id }) => !known.has(connector_id))].map((down) => ({
    type: 'connector.down',
    onceKey: `${down.connector_id}/${hour}`,
    data: { ...down, since: down.since.toISOString() },
  }));
}

interface DownConnector {
  readonly connector_id: string;
  readonly provider: string;
  readonly reason: string;
  readonly since: Date;
}

/** Every recent attempt failed for a reason of the vendor's or of our credential. */
async function failingConnectors(db: Database, now: Date): Promise<DownConnector[]> {
  const { rows } = await sql<{
    connector_id: string;
    provider: string;
    failures: number;
    status: number;
    since: Date;
  }>`
    SELECT connector_id, connectors.provider, attempts.failures, attempts.status, attempts.since
    FROM (
      SELECT connector_id, count(*)::integer AS failures, max(http_status) AS status, min(admitted_at) AS since
      FROM usage_events
      WHERE admitted_at >= ${new Date(now.getTime() - DOWN_WITHIN_MS)}
        AND outcome IN ('success', 'upstream_error', 'upstream_unreachable')
      GROUP BY connector_id
      HAVING count(*) >= ${DOWN_AFTER_FAILURES} AND bool_and(
        outcome = 'upstream_unreachable' OR (outcome = 'upstream_error' AND (http_status >= 500 OR http_status IN (401, 403)))
      )
    ) AS attempts JOIN connectors ON connectors.id = connector_id
    WHERE connectors.enabled AND connectors.deleted_at IS NULL`.execute(db);
  return rows.map(({ connector_id, provider, failures, status, since }) => ({
    connector_id,
    provider,
    reason:
      status === 401 || status === 403
        ? `the vendor rejects the credential (${status})`
        : `the last ${failures} attempts failed`,
    since,
  }));
}

/**
 * A proxy leaves them out, since their circuit breaker is open or the vendor refused their credential, and no attempt of any proxy
 * succeeded lately. So little traffic, or a vendor that is tried only now and then, is no reason to stay silent.
 */
async function leftConnectors(db: Database, now: Date): Promise<DownConnector[]> {
  const { rows } = await sql<{ id: string; provider: string }>`
    SELECT id, provider FROM connectors
    WHERE enabled AND deleted_at IS NULL AND id NOT IN (
      SELECT connector_id FROM usage_events
      WHERE admitted_at >= ${new Date(now.getTime() - DOWN_WITHIN_MS)} AND outcome = 'success'
    )`.execute(db);
  const reported = await findReportedConnectors(
    db,
    rows.map(({ id }) => id),
  );
  return rows.flatMap(({ id, provider }) => {
    const at = reported.filter(
      (one) => one.connector_id === id && one.state !== 'half_open' && Number(one.down_for_ms) >= DOWN_FOR_MS,
    );
    const [worst] = at;
    if (!worst) return [];
    const proxies = `${at.length} ${at.length === 1 ? 'proxy' : 'proxies'}`;
    const longest = Math.max(...at.map(({ down_for_ms }) => Number(down_for_ms)));
    return {
      connector_id: id,
      provider,
      reason:
        worst.state === 'dead'
          ? `the vendor rejects the credential, as ${proxies} found`
          : `its circuit breaker is open at ${proxies}`,
      since: new Date(now.getTime() - longest),
    };
  });
}
