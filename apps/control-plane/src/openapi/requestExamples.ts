/** The model of an operator's own vendor, which the examples of connectors and of the catalog create. */
export const EXAMPLE_MODEL = 'acme/support-1';

const usd = (units: number, nanos: number) => ({ currency_code: 'USD', units, nanos });
const PRICE = { input_price: usd(0, 150_000_000), output_price: usd(0, 600_000_000) };
const MESSAGES = [{ role: 'user', content: 'Hello, weighbridge!' }];

/**
 * The body of each operation that takes one, by its id. Each can be sent as it is to a new service and succeeds: it names only
 * what ships or what another example creates.
 */
export const REQUEST_EXAMPLES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  createKey: {
    name: 'checkout',
    scopes: ['inference'],
    attribution: { team: 'payments', env: 'prod' },
  },
  updateKey: {
    name: 'checkout in Europe',
    attribution: { team: 'payments', env: 'prod', labels: { region: 'eu' } },
  },
  rotateKey: { grace_seconds: 3_600 },
  createPolicy: {
    name: 'payments',
    limit_micro_usd: 50_000_000,
    window: 'month',
    timezone: 'UTC',
    counter_scope: 'principal',
    allowed_models: ['mock/*', 'openai/*'],
    requests_per_minute: 600,
    thresholds: [80, 100],
  },
  updatePolicy: { limit_micro_usd: 80_000_000, thresholds: [90] },
  createOverride: {
    policy_id: 'pol_01kafyq2s0e5fvf6m8x4n9r7td',
    principal_id: 'checkout@example.com',
    limit_micro_usd: 200_000_000,
    reason: 'evaluation for the launch',
    duration_seconds: 604_800,
  },
  updateOverride: { limit_micro_usd: 300_000_000 },
  putPrincipal: { policy_id: null, role: 'finance' },
  createTeam: { name: 'payments' },
  updateTeam: { parent_team_id: null },
  putTeamMember: { role: 'member' },
  applyPlan: {
    calls: [
      {
        method: 'POST',
        path: '/api/v1/policies',
        body: { name: 'search', limit_micro_usd: 50_000_000 },
        creates: '{policies:search}',
      },
      {
        method: 'PUT',
        path: '/api/v1/principals/search@example.com',
        body: { policy_id: '{policies:search}' },
      },
    ],
  },
  createProfile: { name: 'support', strategy: 'ordered', targets: [{ model: 'mock/echo' }] },
  updateProfile: { strategy: 'weighted', targets: [{ model: 'mock/echo', weight: 1 }] },
  createAlias: { name: 'claude-*', target: 'mock/echo' },
  updateAlias: { target: 'router/default' },
  explainName: { model: 'echo', route: 'chat_completions' },
  explainProfile: { route: 'chat_completions', workload_type: 'support' },
  createCorrection: { amount_micro_usd: -1, reason: "The vendor's invoice of May charges less for it." },
  rebuildLedger: { apply: false },
  discardQuarantined: { note: 'Sent by a load test.' },
  createConnector: {
    provider: 'acme',
    name: 'acme in Europe',
    dialect: 'openai',
    base_url: 'https://api.acme.example/v1',
    credential: 'the-credential-of-your-account',
    models: ['acme/*'],
  },
  updateConnector: { enabled: false, priority: 10 },
  putConnectorPrice: PRICE,
  putCatalogModel: {
    upstream_name: 'support-1',
    context_window: 128_000,
    max_output_tokens: 16_384,
    capabilities: ['tools'],
    price: PRICE,
  },
  updateCatalogModel: { capabilities: ['tools', 'vision'] },
  createCatalogPrice: { ...PRICE, cache_read_price: usd(0, 75_000_000) },
  createWebhook: {
    name: 'on-call',
    url: 'https://hooks.acme.example/weighbridge',
    events: ['budget.threshold', 'budget.exhausted', 'connector.down'],
  },
  updateWebhook: { events: [], enabled: true },
  rotateWebhook: { grace_seconds: 3_600 },
  createChatCompletion: { model: 'mock/echo', messages: MESSAGES },
  createResponse: { model: 'mock/echo', input: 'Hello, weighbridge!' },
  createMessage: { model: 'mock/echo', max_tokens: 256, messages: MESSAGES },
  countMessageTokens: { model: 'mock/echo', messages: MESSAGES },
  createEmbeddings: { model: 'mock/echo', input: 'Hello, weighbridge!' },
  generateContent: { contents: [{ role: 'user', parts: [{ text: 'Hello, weighbridge!' }] }] },
  streamGenerateContent: { contents: [{ role: 'user', parts: [{ text: 'Hello, weighbridge!' }] }] },
  countContentTokens: { contents: [{ role: 'user', parts: [{ text: 'Hello, weighbridge!' }] }] },
  embedContent: { content: { parts: [{ text: 'Hello, weighbridge!' }] } },
  batchEmbedContents: { requests: [{ content: { parts: [{ text: 'Hello, weighbridge!' }] } }] },
  createCompletion: { model: 'mock/echo', prompt: 'Hello, weighbridge!' },
  countResponseTokens: { model: 'mock/echo', input: 'Hello, weighbridge!' },
  compactResponse: { model: 'mock/echo', input: 'Hello, weighbridge!' },
  giveFeedback: { request_id: 'req_01kafyq2s0e5fvf6m8x4n9r7td', score: 0.8, comment: 'Right, but long.' },
};

/** The request that creates a resource: the example of the resource has the same values. */
export const CREATED_BY: Readonly<Record<string, string>> = {
  Key: 'createKey',
  IssuedKey: 'createKey',
  Policy: 'createPolicy',
  Principal: 'putPrincipal',
  Team: 'createTeam',
  Override: 'createOverride',
  Profile: 'createProfile',
  Alias: 'createAlias',
  Connector: 'createConnector',
  Webhook: 'createWebhook',
  WebhookWithSecret: 'createWebhook',
  Correction: 'createCorrection',
};
