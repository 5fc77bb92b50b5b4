import type { Database } from '@weighbridge/database';
import { type LimitWindow, windowFrom } from '@weighbridge/domain';
import { furtherLimits } from '@weighbridge/state';
import type { EventData } from './describeEvent.ts';
import { readEventTeams } from './teamsOfEvents.ts';

/** An event's data with names and links, and whom it concerns. */
export interface CompletedEvent {
  readonly data: EventData;
  /** Its policy and those above it. */
  readonly policyIds: readonly string[];
  /** The teams that it concerns, and those above them. */
  readonly teamIds: readonly string[];
}

interface PolicyFacts {
  readonly id: string;
  readonly name: string;
  readonly parent_policy_id: string | null;
  readonly window_kind: Exclude<LimitWindow['window_kind'], 'first_use'>;
  readonly timezone: string;
  readonly limits: unknown;
}

/**
 * Adds to events the names of what they name by id, the edges of their windows, and a link. Links are paths of the operator API,
 * at the public address of the deployment if it has one.
 */
export async function completeEvents(
  db: Database,
  events: readonly { readonly data: EventData }[],
  publicUrl: string | undefined,
): Promise<CompletedEvent[]> {
  const policies = await readPolicies(db, idsOf(events, 'policy_id'));
  const keys = await readNames(db, 'keys', idsOf(events, 'key_id'));
  const connectors = await readNames(db, 'connectors', idsOf(events, 'connector_id'));
  const teamsOf = await readEventTeams(
    db,
    events.map(({ data }) => data),
  );
  return events.map(({ data }) => {
    const { team, teamIds } = teamsOf(data);
    const policy = policies.get(String(data.policy_id));
    const path = linkOf(data);
    return {
      data: {
        ...data,
        ...(policy && { policy_name: policy.name, ...limitOf(policy, data) }),
        ...(typeof data.key_id === 'string' && { key_name: keys.get(data.key_id) ?? null }),
        ...(typeof data.connector_id === 'string' && {
          connector_name: connectors.get(data.connector_id) ?? null,
        }),
        ...(team && { team_id: team.id, team_name: team.name }),
        ...(path !== undefined && { url: `${publicUrl ?? ''}/api/v1${path}` }),
      },
      policyIds: policy ? chainOf(policies, policy) : [],
      teamIds,
    };
  });
}

/** The window of the policy, or of the further limit that the event is about, with its name. One that is gone has neither. */
function limitOf(policy: PolicyFacts, data: EventData) {
  if (data.limit_id === undefined) return windowOf(policy, data);
  const limit = furtherLimits(policy).find(({ id }) => id === data.limit_id);
  return limit ? { limit_name: limit.name, ...windowOf(limit, data) } : {};
}

function windowOf(limit: LimitWindow, { window_start }: EventData) {
  if (typeof window_start !== 'string') return {};
  const { end } = windowFrom(limit, new Date(window_start));
  return { window: limit.window_every ?? limit.window_kind, reset: end?.toISOString() ?? null };
}

function chainOf(policies: ReadonlyMap<string, PolicyFacts>, policy: PolicyFacts): string[] {
  const chain: string[] = [];
  for (let at: PolicyFacts | undefined = policy; at && !chain.includes(at.id); ) {
    chain.push(at.id);
    at = at.parent_policy_id === null ? undefined : policies.get(at.parent_policy_id);
  }
  return chain;
}

/** The policies of these ids, and all above them. */
async function readPolicies(db: Database, ids: readonly string[]): Promise<Map<string, PolicyFacts>> {
  const found = new Map<string, PolicyFacts>();
  for (let wanted = ids; wanted.length > 0; ) {
    const rows = await db
      .selectFrom('policies')
      .select(['id', 'name', 'parent_policy_id', 'window_kind', 'timezone', 'limits'])
      .where('id', 'in', wanted)
      .execute();
    for (const row of rows) found.set(row.id, row);
    wanted = rows.flatMap(({ parent_policy_id: id }) => (id === null || found.has(id) ? [] : [id]));
  }
  return found;
}

async function readNames(
  db: Database,
  table: 'keys' | 'connectors',
  ids: readonly string[],
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await db.selectFrom(table).select(['id', 'name']).where('id', 'in', ids).execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

function idsOf(events: readonly { readonly data: EventData }[], field: string): string[] {
  const ids = events.map(({ data }) => data[field]).filter((id) => typeof id === 'string');
  return [...new Set(ids)];
}

/** The path of what an event is about. */
function linkOf(data: EventData): string | undefined {
  const id = (field: string) =>
    typeof data[field] === 'string' ? encodeURIComponent(data[field]) : undefined;
  const [policy, key, connector] = [id('policy_id'), id('key_id'), id('connector_id')];
  const [limit, value] = [id('limit_id'), id('value')];
  if (policy !== undefined) {
    const query = [...(limit ? [`limit_id=${limit}`] : []), ...(limit && value ? [`value=${value}`] : [])];
    return `/policies/${policy}/counters${query.length > 0 ? `?${query.join('&')}` : ''}`;
  }
  if (key !== undefined) return `/keys/${key}`;
  if (connector !== undefined) return `/connectors/${connector}`;
  if (typeof data.path === 'string') return data.path;
  return undefined;
}
