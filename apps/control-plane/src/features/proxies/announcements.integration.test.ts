import { create, equals } from '@bufbuild/protobuf';
import { type Delta, type Key, KeySchema, type Policy, PolicySchema } from '@weighbridge/contracts';
import { tokenSha256 } from '@weighbridge/domain';
import { deltaOf, policyMessage } from '@weighbridge/state';
import type { KyselyPlugin } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { changesAfter, currentRevision } from '../changes/changes.service.ts';
import { loadPeppers } from '../keys/peppers.ts';
import { findPoliciesById } from '../policies/policies.service.ts';
import { resolveKeys } from './resolveKey.service.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

let made = 0;
const idOf = async (path: string, body: Json) => {
  const response = await api.call('POST', path, { body: { name: `made-${made++}`, ...body } });
  if (response.status !== 201) throw new Error(`${path}: ${JSON.stringify(response.body)}`);
  return response.body.id as string;
};
const policy = (body: Json = {}) => idOf('/policies', body);
const profile = () => idOf('/profiles', { strategy: 'ordered', targets: [{ model: 'mock/echo' }] });

const attribution = { team: 'blue' };

/** A key, and everything that decides how it is served. */
async function world() {
  const parent = await policy();
  const replacement = await policy({ parent_policy_id: await policy() });
  const own = await policy({
    parent_policy_id: parent,
    on_exhausted: { profile_id: await profile(), policy_id: replacement },
  });
  const teamPolicies = [await policy(), await policy()];
  const above = await idOf('/teams', { policy_id: teamPolicies[1] });
  const team = await idOf('/teams', { policy_id: teamPolicies[0], parent_team_id: above });
  const principal = `member-${made++}`;
  await ok('PUT', `/teams/${team}/members/${principal}`, { role: 'member' });
  const { id, key } = await api.issue({ principal_id: principal, policy_id: own });
  const below = await api.issue({ principal_id: principal }, key);
  const plain = await api.issue({ principal_id: principal });
  // Of a principal without a team: only a default governs it.
  const free = await api.issue({ principal_id: `free-${made++}` });
  return {
    id,
    key,
    below: below.key,
    plain: plain.key,
    free: free.key,
    own,
    parent,
    replacement,
    teamPolicies,
    above,
    team,
    principal,
  };
}
type World = Awaited<ReturnType<typeof world>>;

async function ok(method: 'POST' | 'PATCH' | 'PUT' | 'DELETE', path: string, body?: Json): Promise<void> {
  const response = await api.call(method, path, body && { body });
  if (response.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(response.body)}`);
}

const patchKey = (body: Json) => (w: World) => ok('PATCH', `/keys/${w.id}`, body);
const patchOf = (which: 'own' | 'parent' | 'replacement', body: Json) => (w: World) =>
  ok('PATCH', `/policies/${w[which]}`, body);
const anyPolicy = (which: 'own' | 'parent' | 'replacement') =>
  [
    [`limit of ${which}`, patchOf(which, { limit_micro_usd: 7 })],
    [`enforcement of ${which}`, patchOf(which, { enforcement: 'shadow' })],
    [`budget mode of ${which}`, patchOf(which, { budget_mode: 'hard' })],
    [`models of ${which}`, patchOf(which, { allowed_models: ['openai/*'] })],
    [`rates of ${which}`, patchOf(which, { requests_per_minute: 3, tokens_per_minute: 4, max_parallel: 5 })],
    [`stored objects of ${which}`, patchOf(which, { foreign_objects: 'own' })],
    [`translation of ${which}`, patchOf(which, { translation: 'strict' })],
    [`caching of prompts of ${which}`, patchOf(which, { auto_cache: true })],
    [`waits of ${which}`, patchOf(which, { queue_ms: 500, priority: 3 })],
    [`headers of ${which}`, patchOf(which, { attribution_headers: { 'x-customer': 'user' } })],
    [`users of bodies of ${which}`, patchOf(which, { user_from_body: true })],
    [`hard fields of ${which}`, patchOf(which, { hard_allow_fields: ['metadata'] })],
    [`cache of ${which}`, patchOf(which, { cache: { scope: 'policy', ttl_seconds: 60 } })],
    [`window of ${which}`, patchOf(which, { window: 'hour' })],
    [`time zone of ${which}`, patchOf(which, { timezone: 'Asia/Tokyo' })],
    [`counter scope of ${which}`, patchOf(which, { counter_scope: 'policy' })],
    [`parent of ${which}`, async (w: World) => patchOf(which, { parent_policy_id: await policy() })(w)],
    [`profile of ${which}`, async (w: World) => patchOf(which, { profile_id: await profile() })(w)],
  ] as const;

/** Every operation that changes how a key is served. */
const CHANGES: readonly (readonly [string, (world: World) => Promise<unknown>])[] = [
  ['disabled', patchKey({ disabled: true })],
  ['expiry', patchKey({ expires_at: '2027-01-01T00:00:00Z' })],
  ['attribution', patchKey({ attribution })],
  ['policy', async (w) => patchKey({ policy_id: await policy() })(w)],
  ['no policy of its own', patchKey({ policy_id: null })],
  ['revoked', (w) => ok('DELETE', `/keys/${w.id}`)],
  ['rotated', (w) => ok('POST', `/keys/${w.id}/rotate`, {})],
  ['rotated with a grace', (w) => ok('POST', `/keys/${w.id}/rotate`, { grace_seconds: 60 })],
  ['revoked with its issuer', (w) => ok('DELETE', `/keys/${w.id}?descendants=true`)],
  ['principal deactivated', (w) => ok('PUT', `/principals/${w.principal}`, { active: false })],
  [
    'policy of the principal',
    async (w) => ok('PUT', `/principals/${w.principal}`, { policy_id: await policy() }),
  ],
  ['taken out of the team', (w) => ok('DELETE', `/teams/${w.team}/members/${w.principal}`)],
  ['put into another team', (w) => ok('PUT', `/teams/${w.above}/members/${w.principal}`, { role: 'lead' })],
  ['team frozen', (w) => ok('POST', `/teams/${w.team}/freeze`)],
  ['team above frozen', (w) => ok('POST', `/teams/${w.above}/freeze`)],
  ['policy of the team', async (w) => ok('PATCH', `/teams/${w.team}`, { policy_id: await policy() })],
  [
    'policy of members of the team',
    async (w) => ok('PATCH', `/teams/${w.team}`, { member_policy_id: await policy() }),
  ],
  ['policy of the team above', async (w) => ok('PATCH', `/teams/${w.above}`, { policy_id: null })],
  ['parent of the team', (w) => ok('PATCH', `/teams/${w.team}`, { parent_team_id: null })],
  ['default for services', () => policy({ default_for: 'service' })],
  ['no replacement', patchOf('own', { on_exhausted: null })],
];
/** Each change has keys of its own; those of one policy follow each other on the same keys. */
const CHANGES_OF_KEYS = [
  ...CHANGES.map((change) => [change]),
  anyPolicy('own'),
  anyPolicy('parent'),
  anyPolicy('replacement'),
];

/** How keys are served by their tokens; undefined: not at all. */
async function servedAs(tokens: readonly string[]): Promise<(Key | undefined)[]> {
  return await Promise.all(tokens.map((token) => api.resolve(token).catch(() => undefined)));
}

/** What a proxy makes of a cached key by a delta: undefined if it reads the key again, else the key with new settings. */
function afterDelta(
  key: Key,
  { keyIds, principalIds, policyIds, allKeys, policies }: Delta,
): Key | undefined {
  if (allKeys || keyIds.includes(key.id) || principalIds.includes(key.principalId)) return undefined;
  const settings = new Map(policies.map((one) => [one.id, one.settings]));
  let isOutdated = false;
  const withNew = (counter: Key['policies'][number]) => {
    const { bucket, windowEndMs, windowRemainingMs, structure } = counter;
    if (!bucket || !policyIds.includes(bucket.policyId)) return counter;
    const changed = settings.get(bucket.policyId);
    isOutdated ||= changed?.structure !== structure;
    return { ...changed, bucket, windowEndMs, windowRemainingMs } as typeof counter;
  };
  const { policies: own, replacements } = key;
  const changed = create(KeySchema, {
    ...key,
    policies: own.map(withNew),
    replacements: replacements.map((one) => ({ ...one, policies: one.policies.map(withNew) })),
  });
  return isOutdated ? undefined : changed;
}

async function deltaSince(revision: bigint): Promise<Delta> {
  const changes = await changesAfter(api.db, revision, 1_000);
  const ids = changes.filter(({ kind }) => kind === 'policy').map(({ resource_id }) => resource_id);
  const rows = ids.length === 0 ? [] : await findPoliciesById(api.db, ids);
  const policies = new Map<string, Policy>(
    rows.map((row) => [row.id, create(PolicySchema, policyMessage(row))]),
  );
  const to = await currentRevision(api.db);
  return deltaOf(changes, { from: revision, to }, (id) => policies.get(id));
}

async function problemOf(
  one: World,
  change: (world: World) => Promise<unknown>,
): Promise<string | undefined> {
  const tokens = [one.key, one.below, one.plain, one.free];
  const before = await servedAs(tokens);
  const revision = await currentRevision(api.db);
  await change(one);
  const after = await servedAs(tokens);
  const delta = await deltaSince(revision);
  let changed = 0;
  for (const [at, key] of before.entries()) {
    const now = after[at];
    if (!key) throw new Error('a key was not issued');
    if (now && equals(KeySchema, key, now)) continue;
    changed++;
    const cached = afterDelta(key, delta);
    if (cached && !(now && equals(KeySchema, cached, now))) return 'not announced';
  }
  return changed === 0 ? 'changes nothing' : undefined;
}

it('announces whatever changes how a key is served: its delta names each such key, or has what is new', async () => {
  const wrong: string[] = [];
  for (const changes of CHANGES_OF_KEYS) {
    const one = await world();
    for (const [name, change] of changes) {
      const problem = await problemOf(one, change);
      if (problem) wrong.push(`${name}: ${problem}`);
    }
  }
  expect(wrong).toEqual([]);
});

it('reads many keys as it reads each, with their tokens in order, in two statements', async () => {
  const first = await world();
  const worlds = [first, await world(), await world()];
  await ok('POST', `/teams/${worlds[1]?.above}/freeze`);
  const tokens = worlds.flatMap(({ key, below }) => [key, 'sk-svc-unknown', below]);
  const each = await servedAs(tokens);
  let statements = 0;
  const counting: KyselyPlugin = {
    transformQuery({ node }) {
      statements++;
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  const peppers = await loadPeppers(api.db, { current: undefined, others: [] }, api.now);
  const deps = { db: api.db.withPlugin(counting), now: () => api.now, peppers };
  const { responses } = await resolveKeys(deps, tokens.map(tokenSha256));
  expect(responses.map(({ key }) => key)).toEqual(each);
  expect(new Set(responses.map(({ revision }) => revision))).toEqual(
    new Set([await currentRevision(api.db)]),
  );
  expect(statements).toBe(2);
  // The governing policy and its parents, then the policies of teams, nearest first.
  const named = responses[0]?.key?.policies.map(({ bucket }) => bucket?.policyId);
  expect(named).toEqual([first.own, first.parent, ...first.teamPolicies]);
});
