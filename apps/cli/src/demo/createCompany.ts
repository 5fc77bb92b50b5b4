import { bodyOf, type Client } from '@weighbridge/client';
import { COMPANY, type DemoProvider, type DemoTeam, LIVE, PROVIDERS, TEAMS } from './company.ts';

/** What the API made of the company: ids by the names in company.ts. */
export interface CreatedCompany {
  readonly companyPolicyId: string;
  readonly teams: ReadonlyMap<
    string,
    { readonly id: string; readonly poolId: string; readonly eachId: string }
  >;
  /** By `PERSON/APPLICATION`. */
  readonly keyIds: ReadonlyMap<string, string>;
  readonly connectorIds: Readonly<Record<DemoProvider, string>>;
  /** For signing in to the console as someone else. */
  readonly leadKey: string;
  readonly memberKey: string;
  readonly liveKey: string;
  readonly livePolicyId: string;
  readonly webhookId: string;
  readonly webhookSecret: string;
}

/** Limits of this month, in micro-USD. */
export interface CompanyLimits {
  readonly company: number;
  readonly byTeam: ReadonlyMap<string, { readonly pool: number; readonly each: number }>;
}

interface Wanted {
  readonly limits: CompanyLimits;
  readonly vendorUrls: Readonly<Record<DemoProvider, string>>;
  readonly webhookUrl: string;
}

const PEOPLE_SCOPES = ['inference', 'usage:read', 'keys:read', 'models:read'] as const;

/** Creates teams, people, keys, policies, connectors, a profile, an alias and a webhook, by the operator API. */
export async function createCompany(client: Client, wanted: Wanted): Promise<CreatedCompany> {
  const policies = await createPolicies(client, wanted.limits);
  const teams = await createTeams(client, policies);
  const connectorIds = await createConnectors(client, wanted.vendorUrls);
  await bodyOf(
    client.POST('/api/v1/profiles', {
      body: {
        name: 'reliable',
        strategy: 'ordered',
        targets: [{ model: 'anthropic/claude-sonnet-4-5' }, { model: 'openai/gpt-4.1' }],
      },
    }),
  );
  await bodyOf(client.POST('/api/v1/aliases', { body: { name: 'house-model', target: 'router/reliable' } }));
  const keys = new Map<string, { id: string; key: string }>();
  for (const { people } of TEAMS) {
    for (const { id: principal_id, applications } of people) {
      for (const name of applications) {
        const scopes = [...PEOPLE_SCOPES];
        const created = await bodyOf(client.POST('/api/v1/keys', { body: { name, principal_id, scopes } }));
        keys.set(`${principal_id}/${name}`, created);
      }
    }
  }
  const live = await createLiveBudget(client);
  const webhook = await bodyOf(
    client.POST('/api/v1/webhooks', {
      body: {
        name: 'on call',
        url: wanted.webhookUrl,
        events: ['budget.threshold', 'budget.exhausted', 'connector.down', 'usage.gap'],
      },
    }),
  );
  return {
    companyPolicyId: policies.companyId,
    teams,
    keyIds: new Map([...keys].map(([name, { id }]) => [name, id])),
    connectorIds,
    leadKey: keyOf(keys, TEAMS[0], 0),
    memberKey: keyOf(keys, TEAMS[1], 1),
    ...live,
    webhookId: webhook.id,
    webhookSecret: webhook.secret ?? '',
  };
}

function keyOf(keys: ReadonlyMap<string, { key: string }>, team: DemoTeam | undefined, at: number): string {
  const person = team?.people[at];
  return keys.get(`${person?.id}/${person?.applications[0]}`)?.key ?? '';
}

interface Policies {
  readonly companyId: string;
  readonly byTeam: ReadonlyMap<string, { readonly poolId: string; readonly eachId: string }>;
}

async function createPolicies(client: Client, limits: CompanyLimits): Promise<Policies> {
  const company = await bodyOf(
    client.POST('/api/v1/policies', {
      body: {
        name: `${COMPANY}, all teams`,
        limit_micro_usd: limits.company,
        counter_scope: 'policy',
        thresholds: [50, 80, 100],
      },
    }),
  );
  const byTeam = new Map<string, { poolId: string; eachId: string }>();
  for (const { name } of TEAMS) {
    const { pool = 0, each = 0 } = limits.byTeam.get(name) ?? {};
    const { id: poolId } = await bodyOf(
      client.POST('/api/v1/policies', {
        body: {
          name: `${name}, the team`,
          limit_micro_usd: pool,
          counter_scope: 'policy',
          parent_policy_id: company.id,
          thresholds: [80, 100],
        },
      }),
    );
    const { id: eachId } = await bodyOf(
      client.POST('/api/v1/policies', {
        body: {
          name: `${name}, each person`,
          limit_micro_usd: each,
          counter_scope: 'principal',
          requests_per_minute: 120,
          thresholds: [90],
          cache: { scope: 'principal', ttl_seconds: 3_600 },
        },
      }),
    );
    byTeam.set(name, { poolId, eachId });
  }
  return { companyId: company.id, byTeam };
}

async function createTeams(client: Client, policies: Policies): Promise<CreatedCompany['teams']> {
  const teams = new Map<string, { id: string; poolId: string; eachId: string }>();
  for (const { name, people } of TEAMS) {
    const { poolId = '', eachId = '' } = policies.byTeam.get(name) ?? {};
    const body = { name, policy_id: poolId, member_policy_id: eachId };
    const { id } = await bodyOf(client.POST('/api/v1/teams', { body }));
    for (const { id: principal_id, role } of people) {
      const params = { path: { team_id: id, principal_id } };
      await bodyOf(client.PUT('/api/v1/teams/{team_id}/members/{principal_id}', { params, body: { role } }));
    }
    teams.set(name, { id, poolId, eachId });
  }
  return teams;
}

async function createConnectors(
  client: Client,
  urls: Readonly<Record<DemoProvider, string>>,
): Promise<Record<DemoProvider, string>> {
  const ids = { openai: '', anthropic: '', gemini: '' };
  for (const provider of PROVIDERS) {
    const { id } = await bodyOf(
      client.POST('/api/v1/connectors', {
        body: {
          name: `${provider} (mock on this machine)`,
          provider,
          base_url: urls[provider],
          credential: 'no-real-key',
        },
      }),
    );
    ids[provider] = id;
  }
  return ids;
}

/** One budget that three proxies share, and the key that they are called with. */
async function createLiveBudget(client: Client): Promise<{ livePolicyId: string; liveKey: string }> {
  const policy = await bodyOf(
    client.POST('/api/v1/policies', {
      body: {
        name: LIVE.policy,
        limit_micro_usd: LIVE.limitMicroUsd,
        window: 'none',
        counter_scope: 'policy',
        budget_mode: 'hard',
        thresholds: [80, 100],
      },
    }),
  );
  const body = {
    name: LIVE.key,
    principal_id: LIVE.principalId,
    policy_id: policy.id,
    scopes: [...PEOPLE_SCOPES],
  };
  const { key } = await bodyOf(client.POST('/api/v1/keys', { body }));
  return { livePolicyId: policy.id, liveKey: key };
}
