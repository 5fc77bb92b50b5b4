import fc from 'fast-check';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { MAX_POLICY_DEPTH } from '../src/features/policies/policies.ts';
import { DEFAULT_SCOPES, SCOPES, type Scope } from '../src/shared/scopes.ts';
import { type Json, startTestApi, type TestApi } from './testApi.ts';

/**
 * Random concurrent operations on keys, policies and principals, by operators and other callers. The invariants of the
 * service hold after each round.
 */

/** An index into the existing resources, modulo their count. */
type Pick = number;
type Choice = Pick | null | undefined;

interface Operation {
  readonly kind:
    | 'createKey'
    | 'createKeyTwice'
    | 'patchKey'
    | 'rotateKey'
    | 'revokeKey'
    | 'createPolicy'
    | 'patchPolicy'
    | 'deletePolicy'
    | 'putPrincipal';
  /** Undefined: the first operator. */
  readonly caller: Pick | undefined;
  readonly target: Pick;
  readonly policy: Choice;
  readonly principal: Choice;
  readonly fields: {
    readonly scopes?: readonly Scope[];
    readonly kind?: 'service' | 'user';
    readonly disabled?: boolean;
    readonly expires_at?: string | null;
    readonly default_for?: 'service' | 'user' | 'all' | null;
    readonly self_service?: boolean;
  };
}

// Mostly the same few resources, so that operations collide.
const pick = fc.oneof(
  { weight: 3, arbitrary: fc.nat({ max: 3 }) },
  { weight: 1, arbitrary: fc.nat({ max: 1_000 }) },
);
const choice = fc.oneof(
  { weight: 3, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.constant(null) },
  { weight: 1, arbitrary: pick },
);
const operation: fc.Arbitrary<Operation> = fc.record({
  kind: fc.constantFrom(
    'createKey',
    'createKey',
    'createKeyTwice',
    'patchKey',
    'patchKey',
    'rotateKey',
    'revokeKey',
    'createPolicy',
    'patchPolicy',
    'patchPolicy',
    'deletePolicy',
    'deletePolicy',
    'putPrincipal',
  ),
  caller: fc.option(pick, { nil: undefined, freq: 2 }),
  target: pick,
  policy: choice,
  principal: choice,
  fields: fc.record(
    {
      scopes: fc.oneof(fc.constant([]), fc.subarray([...SCOPES], { maxLength: 2 })),
      kind: fc.constantFrom('service', 'user'),
      disabled: fc.boolean(),
      expires_at: fc.constantFrom('2026-12-01T00:00:00Z', '2027-12-01T00:00:00Z', null),
      default_for: fc.constantFrom('service', 'user', 'all', null),
      self_service: fc.boolean(),
    },
    { requiredKeys: [] },
  ),
});
const rounds = fc.array(fc.array(operation, { minLength: 4, maxLength: 12 }), { minLength: 4, maxLength: 8 });

interface KnownKey {
  readonly id: string;
  token: string;
  readonly principal: string;
  readonly scopes: readonly string[];
}

const PRINCIPALS = ['ada', 'bob', 'eve'];
const at = <T>(all: readonly T[], index: Pick): T => all[index % all.length] as T;

class World {
  readonly api: TestApi;
  readonly keys: KnownKey[] = [];
  readonly policies: string[] = [];
  /** The audit entries of this round, as `action resource`: those that must exist, and those that may. */
  certain: string[] = [];
  possible: string[] = [];
  #names = 0;

  constructor(api: TestApi) {
    this.api = api;
  }

  async perform(operation: Operation): Promise<void> {
    const { kind, fields } = operation;
    const caller = operation.caller === undefined ? undefined : at(this.keys, operation.caller);
    const { kind: keyKind, scopes, disabled, expires_at, default_for, self_service } = fields;
    const policy = this.choose(operation.policy, this.policies);
    const key = at(this.keys, operation.target);
    // A new name each time, so that an accepted operation always changes something.
    const name = `n${this.#names++}`;
    switch (kind) {
      case 'createKey':
      case 'createKeyTwice': {
        const principal = this.choose(operation.principal, PRINCIPALS) ?? undefined;
        const body = defined({ name, kind: keyKind, scopes, disabled, expires_at, policy_id: policy });
        await this.issue(caller, defined({ ...body, principal_id: principal }), kind === 'createKeyTwice');
        return;
      }
      case 'patchKey': {
        const body = defined({ name, disabled, expires_at, policy_id: policy });
        const { status } = await this.call(caller, 'PATCH', `/keys/${key.id}`, body);
        if (status === 200) this.changed(caller, key, `key.updated ${key.id}`);
        return;
      }
      case 'rotateKey': {
        const { status, body } = await this.call(caller, 'POST', `/keys/${key.id}/rotate`, {});
        if (status >= 300) return;
        this.changed(caller, key, `key.rotated ${key.id}`);
        // Whoever gets the secret gets all scopes of the key.
        if (caller && caller.id !== key.id) expect(beyond(caller, key.scopes)).toEqual([]);
        key.token = String(body.key);
        return;
      }
      case 'revokeKey': {
        const { status } = await this.call(caller, 'DELETE', `/keys/${key.id}`);
        if (status === 200) this.changed(caller, key, `key.revoked ${key.id}`, this.possible);
        return;
      }
      case 'createPolicy': {
        const body = defined({ name, parent_policy_id: policy, default_for, self_service });
        const { status, body: made } = await this.call(caller, 'POST', '/policies', body);
        if (status !== 201) return;
        this.byOperator(caller, `policy.created ${made.id}`);
        this.policies.push(String(made.id));
        return;
      }
      case 'patchPolicy': {
        const id = at(this.policies, operation.target);
        const body = defined({ name, parent_policy_id: policy, default_for, self_service });
        const { status } = await this.call(caller, 'PATCH', `/policies/${id}`, body);
        if (status === 200) this.byOperator(caller, `policy.updated ${id}`);
        return;
      }
      case 'deletePolicy': {
        const id = at(this.policies, operation.target);
        const { status } = await this.call(caller, 'DELETE', `/policies/${id}`);
        if (status === 200) this.byOperator(caller, `policy.deleted ${id}`);
        return;
      }
      case 'putPrincipal': {
        const id = at(PRINCIPALS, operation.target);
        const { status } = await this.call(caller, 'PUT', `/principals/${id}`, { policy_id: policy ?? null });
        if (status === 200) this.byOperator(caller, `principal.updated ${id}`, this.possible);
        return;
      }
    }
  }

  async issue(caller: KnownKey | undefined, body: Json, twice: boolean): Promise<void> {
    const headers = twice ? { 'idempotency-key': String(body.name) } : {};
    const responses = await Promise.all(
      Array.from({ length: twice ? 2 : 1 }, () => this.call(caller, 'POST', '/keys', body, headers)),
    );
    const made = responses.filter(({ status }) => status === 201).map((response) => response.body);
    const [first] = made;
    if (!first) return;
    // Two requests with one Idempotency-Key make one key. The caller may have been disabled in between.
    expect(new Set(made.map(({ key }) => key)).size).toBe(1);
    const key: KnownKey = {
      id: String(first.id),
      token: String(first.key),
      principal: String(first.principal_id),
      scopes: first.scopes as string[],
    };
    this.changed(caller, key, `key.created ${key.id}`);
    if (caller) expect(beyond(caller, key.scopes)).toEqual([]);
    this.keys.push(key);
  }

  /** A change of a key was accepted: asserts that the caller may make it. */
  changed(caller: KnownKey | undefined, key: KnownKey, entry: string, list = this.certain): void {
    if (caller && !caller.scopes.includes('operator')) expect(key.principal).toBe(caller.principal);
    if (caller) expect(caller.scopes).toContain('keys:write');
    list.push(entry);
  }

  byOperator(caller: KnownKey | undefined, entry: string, list = this.certain): void {
    if (caller) expect(caller.scopes).toContain('operator');
    list.push(entry);
  }

  async call(
    caller: KnownKey | undefined,
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE' | 'PUT',
    path: string,
    body?: Json,
    headers: Record<string, string> = {},
  ) {
    const key = caller?.token ?? this.api.operatorKey;
    const response = await this.api.call(method, path, { key, headers, ...(body !== undefined && { body }) });
    if (response.status >= 500)
      throw new Error(`${method} ${path} answered ${JSON.stringify(response.body)}`);
    return response;
  }

  choose<T>(choice: Choice, all: readonly T[]): T | null | undefined {
    return typeof choice === 'number' ? at(all, choice) : choice;
  }
}

function beyond(caller: KnownKey, scopes: readonly string[]): string[] {
  return scopes.filter((scope) => scope !== 'inference' && !caller.scopes.includes(scope));
}

function defined(fields: Record<string, unknown>): Json {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

async function logged(api: TestApi) {
  const { rows } = await sql<{ revision: bigint; audited: bigint; newest: bigint }>`
    SELECT revision, (SELECT count(*) FROM audit_log) AS audited,
           (SELECT coalesce(max(id), 0) FROM audit_log) AS newest
    FROM revision`.execute(api.db);
  return rows[0] as (typeof rows)[number];
}

/** Reads the tables, since the service's choice of the governing policy is under test. */
async function ungovernedKeys(api: TestApi): Promise<unknown[]> {
  const { rows } = await sql`
    SELECT keys.id, governing.id AS policy_id
    FROM keys
    JOIN principals ON principals.id = keys.principal_id
    LEFT JOIN policies AS of_kind ON of_kind.default_for = keys.kind
    LEFT JOIN policies AS of_all ON of_all.default_for = 'all'
    LEFT JOIN policies AS governing
      ON governing.id = coalesce(keys.policy_id, principals.policy_id, of_kind.id, of_all.id)
    WHERE keys.revoked_at IS NULL AND (governing.id IS NULL OR governing.deleted_at IS NOT NULL)`.execute(
    api.db,
  );
  return rows;
}

async function brokenTrees(api: TestApi): Promise<string[]> {
  const rows = await api.db.selectFrom('policies').select(['id', 'parent_policy_id', 'deleted_at']).execute();
  const policies = new Map(rows.map((row) => [row.id, row]));
  return rows
    .filter((row) => {
      if (row.deleted_at) return false;
      let depth = 0;
      for (let id = row.parent_policy_id; id !== null; depth++) {
        const parent = policies.get(id);
        if (!parent || parent.deleted_at || depth >= MAX_POLICY_DEPTH) return true;
        id = parent.parent_policy_id;
      }
      return false;
    })
    .map((row) => row.id);
}

/** Keys with more scopes than the key that issued them, whatever happened since. */
async function escapedKeys(api: TestApi): Promise<unknown[]> {
  const { rows } = await sql`
    SELECT made.id
    FROM audit_log
    JOIN keys AS made ON made.id = audit_log.resource_id
    JOIN keys AS maker ON maker.id = audit_log.actor_key_id
    WHERE audit_log.action = 'key.created' AND NOT 'operator' = ANY (maker.scopes)
      AND (made.principal_id <> maker.principal_id
        OR NOT made.scopes <@ (maker.scopes || '{inference}'::text[])
        OR made.counter_key_id <> maker.counter_key_id)`.execute(api.db);
  return rows;
}

async function checkRound(world: World, before: Awaited<ReturnType<typeof logged>>): Promise<void> {
  const { api } = world;
  expect(await ungovernedKeys(api)).toEqual([]);
  expect(await brokenTrees(api)).toEqual([]);
  expect(await escapedKeys(api)).toEqual([]);

  const after = await logged(api);
  expect(after.revision - before.revision).toBe(after.audited - before.audited);
  const rows = await api.db
    .selectFrom('audit_log')
    .select(['action', 'resource_id'])
    .where('id', '>', before.newest)
    .execute();
  const entries = rows.map((row) =>
    `${row.action} ${row.resource_id}`.replace('principal.created', 'principal.updated'),
  );
  const isPossible = (entry: string) => /^(key\.revoked|principal\.)/.test(entry);
  expect(entries.filter((entry) => !isPossible(entry)).sort()).toEqual(world.certain.sort());
  // At most one row per accepted operation.
  const accepted = [...world.possible];
  for (const entry of entries.filter(isPossible)) {
    expect(accepted).toContain(entry);
    accepted.splice(accepted.indexOf(entry), 1);
  }
  world.certain = [];
  world.possible = [];
}

async function seeded(api: TestApi): Promise<World> {
  const world = new World(api);
  world.policies.push(...(await api.db.selectFrom('policies').select('id').execute()).map(({ id }) => id));
  const scopes: Scope[][] = [['keys:read', 'keys:write'], [...DEFAULT_SCOPES], ['inference'], [...SCOPES]];
  for (const [n, principal] of PRINCIPALS.entries()) {
    await world.issue(undefined, { name: 'seed', principal_id: principal, scopes: at(scopes, n) }, false);
    await world.issue(undefined, { name: 'seed', principal_id: principal, scopes: at(scopes, n + 1) }, false);
  }
  world.certain = [];
  return world;
}

it('keys, policies and principals keep their invariants under random concurrent operations', async () => {
  let accepted = 0;
  await fc.assert(
    fc.asyncProperty(rounds, async (all) => {
      const api = await startTestApi();
      try {
        const world = await seeded(api);
        for (const round of all) {
          const before = await logged(api);
          await Promise.all(round.map((one) => world.perform(one)));
          accepted += world.certain.length;
          await checkRound(world, before);
        }
        const revoked = await sql`
          SELECT resource_id FROM audit_log WHERE action = 'key.revoked'
          GROUP BY resource_id HAVING count(*) > 1`.execute(api.db);
        expect(revoked.rows).toEqual([]);
        expect((await world.call(undefined, 'GET', '/keys?page_size=500')).status).toBe(200);
      } finally {
        await api.close();
      }
    }),
    { numRuns: 12 },
  );
  // Too few accepted operations would prove nothing.
  expect(accepted).toBeGreaterThan(10);
});

it('a key issues other keys while it is changed', async () => {
  const api = await startTestApi();
  try {
    const issuer = await api.issue({ principal_id: 'ada', scopes: ['keys:write'] });
    for (let round = 0; round < 8; round++) {
      const responses = await Promise.all(
        Array.from({ length: 8 }, (_, n) => {
          const headers = n % 4 === 1 ? { 'idempotency-key': `${round}-${n}` } : {};
          if (n % 2) return api.call('POST', '/keys', { key: issuer.key, body: { name: 'x' }, headers });
          return api.call('PATCH', `/keys/${issuer.id}`, { body: { name: `${round} ${n}` } });
        }),
      );
      expect(responses.map(({ status }) => status)).toEqual([200, 201, 200, 201, 200, 201, 200, 201]);
    }
  } finally {
    await api.close();
  }
});
