import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type Delta, KeySchema, type Policy, PolicySchema } from '@weighbridge/contracts';
import {
  deltaOf,
  keyMessage,
  type PolicyColumns,
  policyMessage,
  type RecordedChange,
  type ResolvedKey,
  resolvedKey,
} from '@weighbridge/state';

/** What decides how a token is served, as a control plane has it in its database. */
interface State {
  /** Each the secret of a key, that is its present one if it is the key's latest. */
  readonly tokens: number[];
  readonly keys: { disabled: boolean; expiresAtMs: number; policy: number | undefined; principal: number }[];
  readonly principals: { policy: number | undefined; team: number | undefined; isActive: boolean }[];
  readonly teams: {
    policy: number | undefined;
    memberPolicy: number | undefined;
    /** Lower than its own number, so that there is no circle. */
    parent: number | undefined;
    isFrozen: boolean;
  }[];
  readonly policies: {
    settings: number;
    counterVersion: number;
    profile: number;
    parent: number | undefined;
    replacement: number | undefined;
  }[];
  defaultPolicy: number;
}

/** More than keys: each new secret of a key is a token that no one knew. */
const TOKENS = 40;
const KEYS = 9;
const PRINCIPALS = 5;
const TEAMS = 4;
const POLICIES = 8;

interface Dice {
  readonly below: (limit: number) => number;
}

type Recorded = Omit<RecordedChange, 'revision'>;

const own = (kind: string, id: string): Recorded => ({ kind, resource_id: id, reach: 'own' });
const all = (kind: string, id: string): Recorded => ({ kind, resource_id: id, reach: 'all' });

/**
 * Everything that changes how a token is served, with how the control plane records it (`announcements.integration.test.ts` there
 * shows that it does).
 */
export const CHANGES = {
  'a key is disabled or enabled': (state, dice) => {
    const [n, key] = one(state.keys, dice);
    key.disabled = !key.disabled;
    return own('key', `key_${n}`);
  },
  'the expiry of a key': (state, dice) => {
    const [n, key] = one(state.keys, dice);
    key.expiresAtMs = 1_000_000 + dice.below(1_000);
    return own('key', `key_${n}`);
  },
  'the policy of a key': (state, dice) => {
    const [n, key] = one(state.keys, dice);
    key.policy = maybe(POLICIES, dice);
    return own('key', `key_${n}`);
  },
  'the secret of a key': (state, dice) => {
    const n = dice.below(KEYS);
    if (state.tokens.length < TOKENS) state.tokens.push(n);
    return own('key', `key_${n}`);
  },
  'the policy of a principal': (state, dice) => {
    const [n, principal] = one(state.principals, dice);
    principal.policy = maybe(POLICIES, dice);
    return own('principal', `p${n}`);
  },
  'the team of a principal': (state, dice) => {
    const [n, principal] = one(state.principals, dice);
    principal.team = maybe(TEAMS, dice);
    return own('principal', `p${n}`);
  },
  'a principal is deactivated or activated': (state, dice) => {
    const [n, principal] = one(state.principals, dice);
    principal.isActive = !principal.isActive;
    return own('principal', `p${n}`);
  },
  'the policy of a team': (state, dice) => {
    const [n, team] = one(state.teams, dice);
    team.policy = maybe(POLICIES, dice);
    return all('team', `team_${n}`);
  },
  'the policy of members of a team': (state, dice) => {
    const [n, team] = one(state.teams, dice);
    team.memberPolicy = maybe(POLICIES, dice);
    return all('team', `team_${n}`);
  },
  'the parent of a team': (state, dice) => {
    const [n, team] = one(state.teams, dice);
    team.parent = maybe(n, dice);
    return all('team', `team_${n}`);
  },
  'a team is frozen or unfrozen': (state, dice) => {
    const [n, team] = one(state.teams, dice);
    team.isFrozen = !team.isFrozen;
    return all('team', `team_${n}`);
  },
  'the default policy': (state, dice) => {
    state.defaultPolicy = dice.below(POLICIES);
    return all('policy', `pol_${state.defaultPolicy}`);
  },
  'the settings of a policy': (state, dice) => {
    const [n, policy] = one(state.policies, dice);
    policy.settings++;
    return own('policy', `pol_${n}`);
  },
  'the window of a policy': (state, dice) => {
    const [n, policy] = one(state.policies, dice);
    policy.counterVersion++;
    return own('policy', `pol_${n}`);
  },
  'the parent of a policy': (state, dice) => {
    const [n, policy] = one(state.policies, dice);
    policy.parent = maybe(n, dice);
    return own('policy', `pol_${n}`);
  },
  'the profile of a policy': (state, dice) => {
    const [n, policy] = one(state.policies, dice);
    policy.profile++;
    return own('policy', `pol_${n}`);
  },
  'what replaces a policy when its budget is used up': (state, dice) => {
    const [n, policy] = one(state.policies, dice);
    policy.replacement = maybe(n, dice);
    return own('policy', `pol_${n}`);
  },
} satisfies Record<string, (state: State, dice: Dice) => Recorded>;

export type ChangeName = keyof typeof CHANGES;

function one<T>(list: readonly T[], dice: Dice): [number, T] {
  const n = dice.below(list.length);
  return [n, list[n] as T];
}

function maybe(limit: number, dice: Dice): number | undefined {
  return limit === 0 || dice.below(3) === 0 ? undefined : dice.below(limit);
}

/** The state of a control plane, with the log of its changes and what it was at each revision. */
export class SimulatedGovernance {
  revision = 1n;
  /** Not announced, though it happens: what a forgotten record of a change would do. */
  readonly #unannounced: ChangeName | undefined;
  readonly #state: State = firstState();
  #log: RecordedChange[] = [];
  /** How each token is served at each revision. */
  readonly #history = new Map<bigint, readonly string[]>();

  constructor(unannounced?: ChangeName) {
    this.#unannounced = unannounced;
    this.#note();
  }

  /** How many tokens were issued: those of replaced secrets, too. */
  get tokens(): number {
    return this.#state.tokens.length;
  }

  change(dice: Dice): void {
    const names = Object.keys(CHANGES) as ChangeName[];
    const name = names[dice.below(names.length)] as ChangeName;
    const recorded = CHANGES[name](this.#state, dice);
    if (name !== this.#unannounced) this.#log.push({ revision: ++this.revision, ...recorded });
    this.#note();
  }

  /** Forgets all but the newest changes. */
  compact(kept: number): void {
    this.#log = kept === 0 ? [] : this.#log.slice(-kept);
  }

  /** Undefined if a change after this revision was forgotten. */
  deltaAfter(from: bigint): Delta | undefined {
    if (from + 1n < (this.#log[0]?.revision ?? this.revision + 1n)) return undefined;
    const missed = this.#log.filter(({ revision }) => revision > from);
    const policyOf = (id: string): Policy | undefined =>
      // A control plane does not have the settings of every policy at hand.
      id === 'pol_3' ? undefined : create(PolicySchema, policyMessage(this.#columns(Number(id.slice(4)))));
    return deltaOf(missed, { from, to: this.revision }, policyOf);
  }

  key(token: number): MessageInitShape<typeof KeySchema> | undefined {
    const { tokens } = this.#state;
    const n = tokens.lastIndexOf(tokens[token] ?? -1) === token ? tokens[token] : undefined;
    const key = n === undefined ? undefined : this.#state.keys[n];
    const principal = key && this.#state.principals[key.principal];
    if (!key || !principal) return undefined;
    const row = {
      id: `key_${n}`,
      principal_id: `p${key.principal}`,
      disabled: key.disabled || !principal.isActive,
      scopes: [],
      expires_at: new Date(key.expiresAtMs),
      attribution: {},
    };
    const teams = this.#teamsOf(principal.team);
    const [team] = teams;
    const governing =
      key.policy ?? principal.policy ?? team?.memberPolicy ?? team?.policy ?? this.#state.defaultPolicy;
    const chainOf = (head: number) => {
      const lines = [head, ...teams.flatMap(({ policy }) => policy ?? [])].flatMap((one) =>
        this.#lineOf(one),
      );
      return [...new Set(lines)].map((policy) => this.#counter(policy));
    };
    const replacement = this.#state.policies[governing]?.replacement;
    const chain = {
      counters: chainOf(governing),
      team: team && { id: `team_${principal.team}`, isFrozen: teams.some(({ isFrozen }) => isFrozen) },
      replacements: replacement === undefined ? [] : [{ profileId: 'prf', counters: chainOf(replacement) }],
    };
    return keyMessage(row, chain, new Date(0));
  }

  /** How a token is served at the revisions from one on. */
  servedSince(revision: bigint, token: number): ReadonlySet<string> {
    const served = new Set<string>();
    for (let at = revision; at <= this.revision; at++) served.add(this.#history.get(at)?.[token] ?? '');
    return served;
  }

  #note(): void {
    const served = Array.from({ length: this.tokens }, (_, token) => {
      const message = this.key(token);
      return digest(message && resolvedKey(create(KeySchema, message)));
    });
    this.#history.set(this.revision, served);
  }

  #teamsOf(team: number | undefined): State['teams'] {
    const found = team === undefined ? undefined : this.#state.teams[team];
    return found ? [found, ...this.#teamsOf(found.parent)] : [];
  }

  #lineOf(policy: number): number[] {
    const parent = this.#state.policies[policy]?.parent;
    return parent === undefined ? [policy] : [policy, ...this.#lineOf(parent)];
  }

  #counter(n: number) {
    const policy = this.#columns(n);
    const bucket = {
      policyId: policy.id,
      counterVersion: policy.counter_version,
      subject: 'policy',
      windowStartMs: 0n,
    };
    return { policy, bucket, window: { end: null }, limits: [] };
  }

  #columns(n: number): PolicyColumns {
    const policy = this.#state.policies[n] ?? firstPolicy();
    return {
      id: `pol_${n}`,
      enforcement: 'enforce',
      budget_mode: 'balanced',
      limit_nano_usd: null,
      requests_per_minute: 1 + policy.settings,
      tokens_per_minute: null,
      max_parallel: null,
      allowed_models: [],
      hard_allow_fields: [],
      foreign_objects: 'any',
      translation: 'lenient',
      auto_cache: false,
      queue_ms: 0,
      priority: 0,
      attribution_headers: {},
      user_from_body: false,
      cache: null,
      counter_version: policy.counterVersion,
      parent_policy_id: policy.parent === undefined ? null : `pol_${policy.parent}`,
      profile_id: `prf_${policy.profile}`,
      exhausted_policy_id: policy.replacement === undefined ? null : `pol_${policy.replacement}`,
      exhausted_profile_id: policy.replacement === undefined ? null : 'prf',
      limits: [],
    };
  }
}

function firstPolicy(): State['policies'][number] {
  return { settings: 0, counterVersion: 1, profile: 0, parent: undefined, replacement: undefined };
}

function firstState(): State {
  const many = <T>(length: number, make: (n: number) => T) => Array.from({ length }, (_, n) => make(n));
  return {
    tokens: many(KEYS, (n) => n),
    keys: many(KEYS, (n) => ({
      disabled: false,
      expiresAtMs: 1_000_000,
      policy: n % 3 === 0 ? n % POLICIES : undefined,
      principal: n % PRINCIPALS,
    })),
    principals: many(PRINCIPALS, (n) => ({ policy: undefined, team: n % TEAMS, isActive: true })),
    teams: many(TEAMS, (n) => ({
      policy: n,
      memberPolicy: undefined,
      parent: n === 0 ? undefined : n - 1,
      isFrozen: false,
    })),
    policies: many(POLICIES, (n) => ({ ...firstPolicy(), parent: n === 0 ? undefined : 0 })),
    defaultPolicy: 7,
  };
}

/** All that a change can change of how a token is served. */
export function digest(key: ResolvedKey | undefined): string {
  if (!key) return 'unknown';
  const { id, disabled, isFrozen, teamId, expiresAtMs, profileId, rates } = key;
  const counters = rates.map(({ counterKey, requestsPerMinute }) => `${counterKey}=${requestsPerMinute}`);
  const instead = key.onExhausted && digest(key.onExhausted);
  return JSON.stringify([id, disabled, isFrozen, teamId, expiresAtMs, profileId, counters, instead]);
}
