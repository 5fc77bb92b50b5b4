import type { TestRun } from '@weighbridge/testing';
import pg from 'pg';
import { DEPARTMENTS, generatedId, PRINCIPALS, TEAMS } from '../rebuild/generateLedger.ts';
import { type ControlPlane, manage, startControlPlane } from '../shared/service.ts';

/** Someone who uses the console, by their key. */
export interface Visitor {
  readonly who: 'operator' | 'lead' | 'member';
  readonly key: string;
}

/** What paths of requests name. */
export interface Seeded {
  readonly visitors: readonly Visitor[];
  readonly ids: Readonly<Record<string, string>>;
}

/** Of a principal that leads a team, and of one that doesn't. */
const LEAD = 'principal-7';
const MEMBER = `principal-${TEAMS + 7}`;
const PEOPLE_SCOPES = ['inference', 'models:read', 'usage:read', 'keys:read'];

export async function startSeeded(
  run: TestRun,
  databaseUrl: string,
  now: Date,
): Promise<{ readonly controlPlane: ControlPlane; readonly seeded: Seeded }> {
  const controlPlane = await startControlPlane(run, {
    DATABASE_URL: databaseUrl,
    // For the secret of a webhook.
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
  });
  try {
    await addOwners(databaseUrl, now);
    return { controlPlane, seeded: await addResources(controlPlane) };
  } catch (error) {
    await controlPlane.process.stop();
    throw error;
  }
}

/** The policies, teams, principals and keys that the generated ledger names. */
async function addOwners(databaseUrl: string, now: Date): Promise<void> {
  const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1));
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query(ADD_DEPARTMENTS, [month, DEPARTMENTS]);
    await client.query(ADD_POLICIES, [month, TEAMS, DEPARTMENTS]);
    await client.query(ADD_TEAMS, [month, TEAMS]);
    await client.query(ADD_PRINCIPALS, [month, PRINCIPALS, TEAMS]);
    await client.query(ADD_KEYS, [month, PRINCIPALS]);
    await client.query('ANALYZE');
  } finally {
    await client.end();
  }
}

const POLICY_COLUMNS = `id, name, limit_nano_usd, window_kind, timezone, counter_scope, counter_since, enforcement,
  parent_policy_id, created_at, updated_at`;
const ADD_DEPARTMENTS = `
  INSERT INTO policies (${POLICY_COLUMNS})
  SELECT 'policy_department_' || n, 'Department ' || n, 20000000000000, 'month', 'UTC', 'policy', $1::timestamptz, 'enforce', NULL,
    $1, $1
  FROM generate_series(0, $2::integer - 1) AS n`;
const ADD_POLICIES = `
  INSERT INTO policies (${POLICY_COLUMNS})
  SELECT 'policy_team_' || n, 'Each of team ' || n, 100000000000, 'month', 'UTC', 'principal', $1::timestamptz, 'enforce',
    'policy_department_' || n % $3::integer, $1, $1
  FROM generate_series(0, $2::integer - 1) AS n`;
const ADD_TEAMS = `
  INSERT INTO teams (id, name, member_policy_id, created_at, updated_at)
  SELECT 'team_' || lpad(n::text, 26, '0'), 'Team ' || n, 'policy_team_' || n, $1::timestamptz, $1
  FROM generate_series(0, $2::integer - 1) AS n`;
const ADD_PRINCIPALS = `
  INSERT INTO principals (id, team_id, team_role, created_at)
  SELECT 'principal-' || n, 'team_' || lpad((n % $3::integer)::text, 26, '0'), CASE WHEN n < $3 THEN 'lead' ELSE 'member' END,
    $1::timestamptz
  FROM generate_series(0, $2::integer - 1) AS n`;
const ADD_KEYS = `
  INSERT INTO keys (id, name, kind, principal_id, scopes, counter_key_id, key_hint, created_at, updated_at)
  SELECT 'key_' || n || '_' || each, 'Application ' || n || '.' || each, 'user', 'principal-' || n, '{inference}',
    'key_' || n || '_' || each, 'sk-svc-…' || n, $1::timestamptz, $1
  FROM generate_series(0, $2::integer - 1) AS n, generate_series(0, 1) AS each`;

const RARE_EVENTS = 60;

/** Makes some attempts of the member, spread over the month, such as are rare. */
export async function addRareEvents(databaseUrl: string, events: number): Promise<void> {
  const step = Math.max(1, Math.floor(events / PRINCIPALS / RARE_EVENTS));
  const first = requestOf(MEMBER);
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const ids = Array.from({ length: RARE_EVENTS }, (_, n) =>
      generatedId('req', first + n * step * PRINCIPALS),
    );
    await client.query(MAKE_RARE, [ids]);
  } finally {
    await client.end();
  }
}

const MAKE_RARE = `
  UPDATE usage_events SET model = 'openai/rare', estimated = true, outcome = 'upstream_error',
    attribution = attribution || '{"project": "rare", "labels": {"rare": "yes"}}'
  WHERE request_id = ANY ($1::text[])`;

/** One of each kind of resource that a page can open. */
async function addResources(controlPlane: ControlPlane): Promise<Seeded> {
  const add = async (path: string, body: object) =>
    await manage(controlPlane, 'POST', `/api/v1${path}`, body);
  const policy = await add('/policies', {
    name: 'of the console',
    counter_scope: 'key',
    limit_micro_usd: 1_000_000_000,
  });
  const connector = await add('/connectors', {
    name: 'account',
    provider: 'openai',
    credential_ref: 'env:NONE',
  });
  const alias = await add('/aliases', { name: 'house-model', target: 'openai/gpt-5' });
  const profile = await add('/profiles', {
    name: 'house',
    strategy: 'ordered',
    targets: [{ model: 'openai/gpt-5' }],
  });
  const webhook = await add('/webhooks', { name: 'on call', url: 'https://hooks.example.com/weighbridge' });
  const issue = async (principal_id: string) =>
    await add('/keys', { name: `of ${principal_id}`, principal_id, scopes: PEOPLE_SCOPES });
  const lead = await issue(LEAD);
  const member = await issue(MEMBER);
  const ends_at = new Date(Date.now() + 86_400_000).toISOString();
  const reason = 'to be looked at';
  const override = await add('/overrides', {
    policy_id: policy.id,
    key_id: lead.id,
    limit_micro_usd: 1,
    reason,
    ends_at,
  });
  return {
    visitors: [
      { who: 'operator', key: controlPlane.operatorKey },
      { who: 'lead', key: String(lead.key) },
      { who: 'member', key: String(member.key) },
    ],
    ids: {
      alias_id: String(alias.id),
      connector_id: String(connector.id),
      key_id: String(member.id),
      model: 'openai/gpt-5',
      override_id: String(override.id),
      policy_id: String(policy.id),
      principal_id: MEMBER,
      profile_id: String(profile.id),
      // Of the principal of the member's key, so that each visitor may see it.
      request_id: generatedId('req', requestOf(MEMBER)),
      team_id: generatedId('team', 7),
      webhook_id: String(webhook.id),
    },
  };
}

/** The number of a request that the generated ledger has of a principal. */
function requestOf(principal: string): number {
  const wanted = Number(principal.replace('principal-', ''));
  for (let number = 0; ; number++) if ((number * 7_919) % PRINCIPALS === wanted) return number;
}
