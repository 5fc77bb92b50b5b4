/** Where a request goes: a provider, and a model of its catalog. */
interface DemoModel {
  readonly model: string;
  /** Of the requests of a team. */
  readonly share: number;
}

export interface DemoPerson {
  readonly id: string;
  readonly role: 'lead' | 'member';
  /** Each is a key. */
  readonly applications: readonly string[];
}

export interface DemoTeam {
  readonly name: string;
  /** The first leads it. */
  readonly people: readonly DemoPerson[];
  readonly models: readonly DemoModel[];
  readonly projects: readonly string[];
  readonly features: readonly string[];
  readonly workloadType: string;
  /** Requests on a working day. */
  readonly requestsPerDay: number;
  /** Tokens of a usual request. */
  readonly usual: { readonly input: number; readonly output: number };
  /** How full its budget of this month is, in percent: the limit follows from what the month has spent. */
  readonly percentUsed: number;
}

export const COMPANY = 'Acme';
/** How full the company's own budget is, above those of its teams. */
export const COMPANY_PERCENT_USED = 62;

/** Three teams: one near its limit, one with room, one whose budget is used up. */
export const TEAMS: readonly DemoTeam[] = [
  {
    name: 'research',
    people: [
      { id: 'ada@acme.test', role: 'lead', applications: ['notebooks'] },
      { id: 'grace@acme.test', role: 'member', applications: ['paper search', 'evaluation'] },
      { id: 'edsger@acme.test', role: 'member', applications: ['code review'] },
    ],
    models: [
      { model: 'anthropic/claude-sonnet-4-5', share: 0.55 },
      { model: 'openai/gpt-4.1', share: 0.3 },
      { model: 'gemini/gemini-2.5-flash', share: 0.15 },
    ],
    projects: ['atlas', 'papers'],
    features: ['summaries', 'review', 'search'],
    workloadType: 'research',
    requestsPerDay: 130,
    usual: { input: 5_200, output: 900 },
    percentUsed: 84,
  },
  {
    name: 'payments',
    people: [
      { id: 'barbara@acme.test', role: 'lead', applications: ['fraud notes'] },
      {
        id: 'shop@acme.test',
        role: 'member',
        applications: ['checkout, production', 'checkout, staging'],
      },
      { id: 'donald@acme.test', role: 'member', applications: ['ledger assistant'] },
    ],
    models: [
      { model: 'openai/gpt-4.1', share: 0.6 },
      { model: 'anthropic/claude-sonnet-4-5', share: 0.25 },
      { model: 'openai/gpt-5-mini', share: 0.15 },
    ],
    projects: ['checkout', 'fraud'],
    features: ['classification', 'receipts', 'disputes'],
    workloadType: 'classification',
    requestsPerDay: 220,
    usual: { input: 2_400, output: 260 },
    percentUsed: 46,
  },
  {
    name: 'support',
    people: [
      { id: 'radia@acme.test', role: 'lead', applications: ['triage'] },
      { id: 'desk@acme.test', role: 'member', applications: ['helpdesk bot'] },
    ],
    models: [
      { model: 'openai/gpt-5-mini', share: 0.5 },
      { model: 'gemini/gemini-2.5-flash', share: 0.3 },
      { model: 'anthropic/claude-sonnet-4-5', share: 0.2 },
    ],
    projects: ['helpdesk'],
    features: ['answers', 'triage'],
    workloadType: 'chat',
    requestsPerDay: 180,
    usual: { input: 3_100, output: 420 },
    percentUsed: 100,
  },
];

export const PROVIDERS = ['openai', 'anthropic', 'gemini'] as const;
export type DemoProvider = (typeof PROVIDERS)[number];

/** The project that three proxies spend the budget of, live. */
export const LIVE = {
  policy: 'launch day, all proxies together',
  key: 'launch page',
  principalId: 'launch@acme.test',
  limitMicroUsd: 800_000,
  /** In whole micro-dollars per token, so that a correction can be exact. */
  models: ['openai/gpt-4.1', 'anthropic/claude-sonnet-4-5'],
} as const;

export function providerOf(model: string): DemoProvider {
  const provider = PROVIDERS.find((one) => model.startsWith(`${one}/`));
  if (!provider) throw new Error(`the demo has no vendor for ${model}`);
  return provider;
}
