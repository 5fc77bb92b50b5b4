import type { Database, Tx } from '@weighbridge/database';
import { isId, newId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { type Caller, isOperator } from '../../shared/caller.ts';
import { validDisplayName } from '../../shared/displayName.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { type AssertMatch, changedAt } from '../../shared/preconditions.ts';
import { recordAudit } from '../audit/audit.service.ts';
import type { UpstreamHosts } from '../connectors/upstreamHosts.ts';
import { runOnce } from '../idempotency/idempotency.service.ts';
import { policyExists } from '../policies/policies.service.ts';
import { findTeam } from '../teams/teams.service.ts';
import { type Secrets, seal } from './secrets.ts';
import {
  findHealth,
  findWebhook,
  findWebhooks,
  insertWebhook,
  isNameTaken,
  lockWebhook,
  lockWebhooks,
  removeWebhook,
  updateWebhook,
  type WebhookHealth,
  type WebhookRow,
} from './webhooks.repository.ts';
import type {
  NewWebhook,
  Webhook,
  WebhookChanges,
  WebhookQuery,
  WebhookWithSecret,
} from './webhooks.schemas.ts';
import { newSecret, validRoutingKey, validSecret, validWebhookUrl } from './webhooks.ts';

export interface WebhookDeps extends Secrets {
  readonly db: Database;
  readonly now: () => Date;
  /** The hosts that webhooks may use beyond https on the public internet. */
  readonly webhookHosts: UpstreamHosts;
}

/** Each has its own share of the connections that messages are sent by. */
const MAX_WEBHOOKS = 50;

export async function existingWebhook(db: Database, id: string): Promise<WebhookRow> {
  return (isId('whk', id) ? await findWebhook(db, id) : undefined) ?? raise(webhookNotFound());
}

export async function readWebhook(deps: WebhookDeps, caller: Caller, id: string): Promise<Webhook> {
  return shownTo(caller, await presented(deps.db, await existingWebhook(deps.db, id)));
}

/** Whoever knows the url of a chat can post there, so only who may change a webhook sees more of it than the host. */
function shownTo(caller: Caller, webhook: Webhook): Webhook {
  if (isOperator(caller)) return webhook;
  return { ...webhook, url: `${new URL(webhook.url).origin}/… (for operators)` };
}

export async function listWebhooks(
  deps: WebhookDeps,
  caller: Caller,
  query: WebhookQuery,
): Promise<PageOf<Webhook>> {
  const request = pageRequest('webhooks', query, positionOf(part.text));
  const filter = {
    nameContains: query.name_contains,
    enabled: query.enabled && query.enabled === 'true',
  };
  const rows = await findWebhooks(deps.db, filter, request.after?.[0], request.size + 1);
  const health = await findHealth(
    deps.db,
    rows.map(({ id }) => id),
  );
  return page(
    'webhooks',
    request,
    rows,
    (row) => [row.name],
    (row) => shownTo(caller, toWebhook(row, health.get(row.id))),
  );
}

export async function createWebhook(
  deps: WebhookDeps,
  caller: Caller,
  input: NewWebhook,
  idempotencyKey: string | undefined,
): Promise<{ readonly result: WebhookWithSecret; readonly replayed: boolean }> {
  const now = deps.now();
  const id = newId('whk');
  const name = validDisplayName(input.name);
  const url = validWebhookUrl(input.url, deps.webhookHosts);
  const format = input.format ?? 'json';
  const routingKey = validRoutingKey(format, input.routing_key);
  const secret = input.secret === undefined ? newSecret() : validSecret(input.secret);
  const request = { caller, idempotencyKey, body: input, now };
  return await runOnce(deps.db, request, async (tx) => {
    const filter = await filterColumns(tx, input.filter);
    if ((await lockWebhooks(tx)) >= MAX_WEBHOOKS) throw tooManyWebhooks();
    const row = await insertWebhook(tx, {
      id,
      name,
      url,
      format,
      events: [...new Set(input.events)],
      ...filter,
      enabled: input.enabled ?? true,
      ...secretColumns(deps, id, secret),
      ...routingKeyColumns(deps, id, routingKey),
      created_at: now,
      updated_at: now,
    });
    if (!row) throw nameTaken(name);
    const detail = { name, format, host: new URL(url).host, events: row.events };
    await recordAudit(tx, { actor: caller, action: 'webhook.created', resourceId: id, detail, at: now });
    return { ...toWebhook(row, undefined), secret };
  });
}

export async function changeWebhook(
  deps: WebhookDeps,
  caller: Caller,
  id: string,
  input: WebhookChanges,
  assertMatch: AssertMatch,
): Promise<Webhook> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const before = (await lockWebhook(tx, id)) ?? raise(webhookNotFound());
    assertMatch(toWebhook(before, undefined));
    const changes = await validChanges(deps, tx, before, input);
    const changed = Object.entries(changes)
      .filter(([field, value]) => JSON.stringify(value) !== JSON.stringify(before[field as keyof WebhookRow]))
      .map(([field]) => field)
      .filter((field) => !field.endsWith('_kek_id'));
    if (changed.length === 0) return await presented(tx, before);
    const row = await updateWebhook(tx, id, { ...changes, updated_at: changedAt(before.updated_at, now) });
    const detail = { changed, ...(changed.includes('url') && { host: new URL(row.url).host }) };
    await recordAudit(tx, { actor: caller, action: 'webhook.updated', resourceId: id, detail, at: now });
    return await presented(tx, row);
  });
}

/** The columns of the given fields. */
async function validChanges(deps: WebhookDeps, tx: Tx, before: WebhookRow, input: WebhookChanges) {
  const { name, url, events, filter, enabled } = input;
  const format = input.format ?? before.format;
  const isKeyKept = format === 'pagerduty' && before.format === format && input.routing_key === undefined;
  const isKeyNew = input.routing_key !== undefined || format !== before.format;
  const keyColumns =
    isKeyNew && !isKeyKept
      ? routingKeyColumns(deps, before.id, validRoutingKey(format, input.routing_key))
      : {};
  const validName = name === undefined ? undefined : validDisplayName(name);
  if (validName !== undefined && (await isNameTaken(tx, validName, before.id))) throw nameTaken(validName);
  return {
    ...(validName !== undefined && { name: validName }),
    ...(url !== undefined && { url: validWebhookUrl(url, deps.webhookHosts) }),
    ...(input.format !== undefined && { format }),
    ...(events !== undefined && { events: [...new Set(events)] }),
    ...(filter !== undefined && (await filterColumns(tx, filter))),
    ...(enabled !== undefined && { enabled }),
    ...keyColumns,
  };
}

export async function deleteWebhook(
  deps: WebhookDeps,
  caller: Caller,
  id: string,
  assertMatch: AssertMatch,
): Promise<Webhook> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const row = (await lockWebhook(tx, id)) ?? raise(webhookNotFound());
    const webhook = await presented(tx, row);
    assertMatch(webhook);
    await removeWebhook(tx, id);
    const detail = { name: row.name };
    await recordAudit(tx, { actor: caller, action: 'webhook.deleted', resourceId: id, detail, at: now });
    return webhook;
  });
}

/** Replaces the secret. Messages carry the signatures of both until the grace period ends. */
export async function rotateWebhook(
  deps: WebhookDeps,
  caller: Caller,
  id: string,
  graceSeconds: number,
  assertMatch: AssertMatch,
): Promise<WebhookWithSecret> {
  const now = deps.now();
  const secret = newSecret();
  return await deps.db.transaction().execute(async (tx) => {
    const before = (await lockWebhook(tx, id)) ?? raise(webhookNotFound());
    assertMatch(toWebhook(before, undefined));
    const until = graceSeconds > 0 ? new Date(now.getTime() + graceSeconds * 1_000) : null;
    const row = await updateWebhook(tx, id, {
      ...secretColumns(deps, id, secret),
      previous_secret_sealed: until && before.secret_sealed,
      previous_secret_kek_id: until && before.secret_kek_id,
      previous_secret_until: until,
      updated_at: changedAt(before.updated_at, now),
    });
    const detail = { grace_seconds: graceSeconds };
    await recordAudit(tx, { actor: caller, action: 'webhook.rotated', resourceId: id, detail, at: now });
    return { ...(await presented(tx, row)), secret };
  });
}

function secretColumns(deps: Secrets, id: string, secret: string) {
  const { bytes, kekId } = seal(deps, 'secret', id, secret);
  return { secret_sealed: bytes, secret_kek_id: kekId };
}

function routingKeyColumns(deps: Secrets, id: string, routingKey: string | undefined) {
  if (routingKey === undefined) return { routing_key_sealed: null, routing_key_kek_id: null };
  const { bytes, kekId } = seal(deps, 'routing_key', id, routingKey);
  return { routing_key_sealed: bytes, routing_key_kek_id: kekId };
}

/** A filter replaces the one before as a whole. */
async function filterColumns(tx: Tx, filter: NewWebhook['filter']) {
  return {
    policy_ids: await validPolicyIds(tx, filter?.policy_ids),
    team_ids: await validTeamIds(tx, filter?.team_ids),
  };
}

async function validTeamIds(tx: Tx, ids: readonly string[] = []): Promise<string[]> {
  for (const id of ids) {
    if (isId('team', id) && (await findTeam(tx, id))) continue;
    const message = `filter names the team ${id}, which does not exist.`;
    throw new AppError('validation', 'team_not_found', message, { param: 'filter.team_ids' });
  }
  return [...new Set(ids)];
}

async function validPolicyIds(tx: Tx, ids: readonly string[] = []): Promise<string[]> {
  for (const id of ids) {
    if (await policyExists(tx, id)) continue;
    const message = `filter names the policy ${id}, which does not exist.`;
    throw new AppError('validation', 'policy_not_found', message, { param: 'filter.policy_ids' });
  }
  return [...new Set(ids)];
}

async function presented(db: Database, row: WebhookRow): Promise<Webhook> {
  return toWebhook(row, (await findHealth(db, [row.id])).get(row.id));
}

function toWebhook(row: WebhookRow, health: WebhookHealth | undefined): Webhook {
  return {
    id: row.id,
    name: row.name,
    url: row.url,
    format: row.format,
    events: row.events as Webhook['events'],
    filter: { policy_ids: row.policy_ids, team_ids: row.team_ids },
    enabled: row.enabled,
    previous_secret_until: row.previous_secret_until?.toISOString() ?? null,
    pending: health?.pending ?? 0,
    last_delivered_at: health?.last_delivered_at?.toISOString() ?? null,
    last_error: health?.last_error ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

function webhookNotFound(): AppError {
  return new AppError('not_found', 'webhook_not_found', 'There is no webhook with this id.', {
    param: 'webhook_id',
  });
}

function nameTaken(name: string): AppError {
  const message = `There is already a webhook with the name "${name}". Choose another name.`;
  return new AppError('conflict', 'webhook_name_taken', message, { param: 'name' });
}

function tooManyWebhooks(): AppError {
  const message = `The limit of ${MAX_WEBHOOKS} webhooks is reached. Delete one first, or let one receive more events.`;
  return new AppError('conflict', 'too_many_webhooks', message);
}
