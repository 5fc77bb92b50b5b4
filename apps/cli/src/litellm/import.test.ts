import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readApplyFile } from '../apply/applyFile.ts';
import { loadServiceRules } from '../apply/serviceRules.ts';
import { createProgram, runProgram } from '../commands/program.ts';

const CONFIG = `
model_list:
  - model_name: GPT 4o
    litellm_params: { model: azure/gpt-4o-eu, api_base: "https://eu.openai.azure.com/", api_key: os.environ/AZURE_EU, rpm: 60, api_version: 2024-02-01 }
    model_info: { base_model: azure/gpt-4o }
  - model_name: GPT 4o
    litellm_params: { model: gpt-4o, api_key: sk-written-out, rpm: 20, timeout: 30 }
  - model_name: claude
    litellm_params: { model: anthropic/claude-x, api_key: os.environ/ANTHROPIC_KEY, weight: 3, order: 2, max_parallel_requests: 5 }
  - model_name: local
    litellm_params:
      model: hosted_vllm/meta/llama
      api_base: http://gpu.internal:8000/v1
      input_cost_per_token: 0.0000001
      output_cost_per_token: 2e-7
    model_info: { max_input_tokens: 8192, supports_vision: true }
  - model_name: any
    litellm_params: { model: openai/*, api_key: os.environ/OPENAI_API_KEY }
  - model_name: titan
    litellm_params: { model: bedrock/amazon.titan, aws_region_name: us-east-1 }
router_settings:
  routing_strategy: simple-shuffle
  fallbacks: [{ claude: ["GPT 4o"] }]
  model_group_alias: { best: claude, gone: nothing }
  redis_password: hunter2
general_settings: { master_key: sk-master, alerting: [slack] }
environment_variables: { SLACK_URL: "https://hooks.example/secret-path" }
`;

const PRICES = {
  'azure/gpt-4o': {
    litellm_provider: 'azure',
    mode: 'chat',
    max_input_tokens: 128_000,
    max_output_tokens: 16_384,
    input_cost_per_token: 2.5e-6,
    output_cost_per_token: 1e-5,
  },
  'gpt-4o': {
    litellm_provider: 'openai',
    mode: 'chat',
    max_input_tokens: 128_000,
    input_cost_per_token: 2.5e-6,
    output_cost_per_token: 1e-5,
    cache_read_input_token_cost: 1.25e-6,
  },
};

const KEYS = {
  keys: [
    {
      token: 'a1'.repeat(32),
      key_name: 'sk-...wxyz',
      key_alias: 'notes',
      user_id: 'ada@example.com',
      team_id: 't1',
      models: ['GPT 4o'],
      max_budget: 12.5,
      soft_budget: 10,
      budget_duration: '30d',
      rpm_limit: 60,
      tpm_limit: 90_000,
      spend: 3.2,
      metadata: { cost_center: 7 },
      aliases: {},
      expires: null,
      blocked: null,
    },
    {
      token: 'b2'.repeat(32),
      key_alias: 'batch',
      team_id: 't1',
      models: [],
      max_budget: 9,
      budget_duration: '3d',
      blocked: true,
    },
    { token: 'c3'.repeat(32), key_alias: 'old', expires: '2020-01-01T00:00:00Z' },
    { token: 'd4'.repeat(32), key_alias: 'plain', models: ['nobody-knows'] },
  ],
};
const TEAMS = [
  {
    team_id: 't1',
    team_alias: 'engines',
    max_budget: 100,
    budget_duration: '7d',
    models: ['all-proxy-models'],
  },
];

async function run(args: readonly string[], more: Record<string, string> = {}) {
  const files: Record<string, string> = {
    'config.yaml': CONFIG,
    'prices.json': JSON.stringify(PRICES),
    'keys.json': JSON.stringify(KEYS),
    'teams.json': JSON.stringify(TEAMS),
    ...more,
  };
  const [out, err]: [string[], string[]] = [[], []];
  const cli = {
    env: {},
    version: '0',
    out: (text: string) => out.push(text),
    err: (text: string) => err.push(text),
    readFile: async (path: string) => {
      const text = files[path];
      if (text === undefined) throw new Error('no such file');
      return text;
    },
    writeFile: async (path: string, content: string | Uint8Array) => {
      files[path] = String(content);
    },
    now: () => new Date('2026-11-20T10:00:00Z'),
  };
  const code = await runProgram(createProgram(cli), ['import', 'litellm', ...args], cli);
  return { code, out: out.join('\n'), err: err.join('\n'), files };
}

const ALL = [
  '--config',
  'config.yaml',
  '--prices',
  'prices.json',
  '--keys',
  'keys.json',
  '--teams',
  'teams.json',
];
const OUT = ['--out', 'gateway.yaml'];

async function imported(...args: readonly string[]) {
  const { files } = await run(args);
  return parse(files['gateway.yaml'] ?? '');
}

describe('import litellm', () => {
  it('writes a file that apply accepts, without secrets', async () => {
    const { code, out, err, files } = await run([...ALL, ...OUT]);
    expect([code, err]).toEqual([0, '']);
    const { published, rule } = await loadServiceRules();
    const file = readApplyFile('gateway.yaml', files['gateway.yaml'] ?? '', published, rule);
    expect(file.connectors.length).toBeGreaterThan(3);
    for (const secret of ['sk-written-out', 'sk-master', 'hunter2', 'secret-path', 'a1a1'])
      expect(out + files['gateway.yaml']).not.toContain(secret);
  });

  it('converts each account to a connector that refers to its credential', async () => {
    const { connectors } = await imported(...ALL, ...OUT);
    expect(connectors).toEqual([
      {
        name: 'litellm-azure',
        provider: 'azure',
        dialect: 'openai',
        base_url: 'https://eu.openai.azure.com/openai/v1',
        credential_ref: 'env:AZURE_EU',
        models: ['azure/gpt-4o-eu'],
        requests_per_minute: 60,
      },
      {
        name: 'litellm-openai',
        provider: 'openai',
        credential_ref: 'env:OPENAI_API_KEY',
        first_byte_timeout_ms: 30_000,
        requests_per_minute: 20,
        models: ['openai/gpt-4o'],
      },
      {
        name: 'litellm-anthropic',
        provider: 'anthropic',
        credential_ref: 'env:ANTHROPIC_KEY',
        priority: 2,
        weight: 3,
        max_parallel: 5,
        models: ['anthropic/claude-x'],
      },
      {
        name: 'litellm-gpu-internal-8000',
        provider: 'gpu-internal-8000',
        dialect: 'openai',
        base_url: 'http://gpu.internal:8000/v1',
        auth: { kind: 'none' },
        models: ['gpu-internal-8000/meta/llama'],
        prices: { 'gpu-internal-8000/meta/llama': { input_price: '0.1', output_price: '0.2' } },
      },
      {
        name: 'litellm-openai-2',
        provider: 'openai',
        credential_ref: 'env:OPENAI_API_KEY',
        models: ['openai/*'],
      },
    ]);
  });

  it('leaves servers without a key keyless, and says of a price that it has no context window', async () => {
    const server = (model: string, key: string) =>
      `  - { model_name: "${model} ${key}", litellm_params: { model: ${model}, api_base: "http://gpu.internal:8000/v1"${key}, input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 } }`;
    const keys = ['', ', api_key: none', ', api_key: EMPTY', ', api_key: os.environ/GPU'];
    const config = [
      'model_list:',
      ...keys.map((key) => server('hosted_vllm/m', key)),
      server('openai/m', ''),
    ];
    const { out, files } = await run(['--config', 'c.yaml', ...OUT], { 'c.yaml': config.join('\n') });
    const { connectors, models } = parse(files['gateway.yaml'] ?? '');
    const auths = connectors.map(({ auth, credential_ref: ref }: Record<string, unknown>) => auth ?? ref);
    expect(auths).toEqual([{ kind: 'none' }, 'env:GPU', expect.stringMatching(/^env:.*_API_KEY$/)]);
    expect(models).toBeUndefined();
    expect(out).toContain('model_list[0]: price: the price of gpu-internal-8000/m has no context window');
    const { published, rule } = await loadServiceRules();
    expect(() => readApplyFile('gateway.yaml', files['gateway.yaml'] ?? '', published, rule)).not.toThrow();
  });

  it('writes exact prices of the used models', async () => {
    const { models } = await imported(...ALL, ...OUT);
    expect(models).toEqual([
      {
        model: 'azure/gpt-4o-eu',
        context_window: 128_000,
        max_output_tokens: 16_384,
        price: { input_price: '2.5', output_price: '10' },
      },
      {
        model: 'openai/gpt-4o',
        context_window: 128_000,
        price: { input_price: '2.5', output_price: '10', cache_read_price: '1.25' },
      },
      {
        model: 'gpu-internal-8000/meta/llama',
        context_window: 8_192,
        price: { input_price: '0.1', output_price: '0.2' },
      },
    ]);
  });

  it('converts custom prices in every dimension that LiteLLM has', async () => {
    const config = `
model_list:
  - model_name: local
    litellm_params:
      model: hosted_vllm/m
      api_base: http://gpu.internal:8000/v1
      input_cost_per_token: 1e-6
      output_cost_per_token: 2e-6
      input_cost_per_audio_token: 3e-5
      input_cost_per_token_above_200k_tokens: 2e-6
      input_cost_per_token_priority: 4e-6
      output_cost_per_token_priority: 8e-6
      cache_creation_input_token_cost_above_1hr: 5e-6
      search_context_cost_per_query: { search_context_size_medium: 0.01 }
    model_info: { max_input_tokens: 10 }
`;
    const files = { 'c.yaml': config };
    const { out, files: written } = await run(['--config', 'c.yaml', ...OUT], files);
    expect(out).not.toContain('cost_per');
    const rates = { input_audio_price: '30', cache_write_1h_price: '5' };
    const { published, rule } = await loadServiceRules();
    expect(() => readApplyFile('gateway.yaml', written['gateway.yaml'] ?? '', published, rule)).not.toThrow();
    expect(parse(written['gateway.yaml'] ?? '').models[0].price).toEqual({
      input_price: '1',
      output_price: '2',
      ...rates,
      tiers: [{ above_input_tokens: 200_000, input_price: '2', output_price: '2', ...rates }],
      variants: [
        {
          service_tier: 'priority',
          input_price: '4',
          output_price: '8',
          ...rates,
          tiers: [{ above_input_tokens: 200_000, input_price: '4', output_price: '8', ...rates }],
        },
      ],
      tool_prices: { web_search: '0.01' },
    });
  });

  it('converts each model name of callers to a profile, with weights and fallbacks', async () => {
    const { profiles } = await imported(...ALL, ...OUT);
    expect(profiles).toEqual([
      {
        name: 'gpt-4o',
        strategy: 'weighted',
        targets: [
          { model: 'azure/gpt-4o-eu', weight: 60 },
          { model: 'openai/gpt-4o', weight: 20 },
        ],
      },
      {
        name: 'claude',
        strategy: 'ordered',
        targets: ['anthropic/claude-x', 'azure/gpt-4o-eu', 'openai/gpt-4o'].map((model) => ({ model })),
      },
      { name: 'local', strategy: 'ordered', targets: [{ model: 'gpu-internal-8000/meta/llama' }] },
    ]);
  });

  it('makes the policy of a team the parent of those of its keys, and never allows more', async () => {
    const { policies, teams, principals } = await imported(...ALL, ...OUT);
    expect(policies).toEqual([
      { name: 'litellm team engines', limit_micro_usd: 100_000_000, window: 'week', counter_scope: 'policy' },
      {
        name: 'litellm key notes',
        parent: 'litellm team engines',
        limit_micro_usd: 12_500_000,
        window: 'month',
        thresholds: [80],
        allowed_models: ['azure/gpt-4o-eu', 'openai/gpt-4o'],
        requests_per_minute: 60,
        tokens_per_minute: 90_000,
        counter_scope: 'key',
      },
      {
        name: 'litellm key batch',
        parent: 'litellm team engines',
        limit_micro_usd: 3_000_000,
        window: 'day',
        counter_scope: 'key',
      },
      { name: 'litellm key plain', allowed_models: ['litellm/nobody-knows'], counter_scope: 'key' },
    ]);
    expect(principals).toBeUndefined();
    expect(teams).toEqual([
      { name: 'engines', policy: 'litellm team engines', members: ['ada@example.com', 'team:t1'] },
    ]);
  });

  it('makes teams of teams, of those people who have no keys outside of them', async () => {
    const keys = [
      { key_alias: 'k1', user_id: 'ada', team_id: 't1' },
      { key_alias: 'k2', user_id: 'bob', team_id: 't1' },
      { key_alias: 'k3', user_id: 'bob' },
      { key_alias: 'k4', user_id: 'cy', team_id: 't2' },
    ];
    const people = [
      { user_id: 'ada', role: 'admin' },
      { user_id: 'dan', role: 'user' },
      { user_email: 'eve@example.com' },
      { user_id: 'bob', role: 'admin' },
    ];
    const rows = [
      { team_id: 't1', team_alias: 'engines', members_with_roles: people, max_budget: 5 },
      { team_id: 't2', team_alias: 'engines', admins: ['dan'], members: '["cy"]', blocked: true },
      { team_id: 't3', members: '{a,b}', team_member_budget: 3 },
    ];
    const more = { 'k.json': JSON.stringify({ keys }), 't.json': JSON.stringify(rows) };
    const { out, files } = await run(['--keys', 'k.json', '--teams', 't.json', ...OUT], more);
    const file = parse(files['gateway.yaml'] ?? '');
    expect(file.teams).toEqual([
      {
        name: 'engines',
        policy: 'litellm team engines',
        leads: ['ada'],
        members: ['dan', 'eve@example.com'],
      },
      { name: 'engines t2', policy: 'litellm team engines t2', frozen: true, members: ['cy'] },
      { name: 't3', policy: 'litellm team t3' },
    ]);
    // Its other key does not count for the team.
    expect(file.principals).toEqual([{ id: 'bob', policy: 'litellm team engines' }]);
    for (const line of [
      'team t1: bob: it has keys outside of the team',
      'team t2: dan: it is in the team engines',
      "team t3: members: it can't be read",
      'team t3: team_member_budget: no counterpart',
    ])
      expect(out).toContain(line);
    const { published, rule } = await loadServiceRules();
    expect(() => readApplyFile('gateway.yaml', files['gateway.yaml'] ?? '', published, rule)).not.toThrow();
  });

  it('makes further limits of budgets by model, of several durations, of customers, tags and providers', async () => {
    const config = `${CONFIG}
litellm_settings:
  max_budget: 500
  budget_duration: 30d
  max_end_user_budget: 2
  tag_budget_config:
    engineering: { max_budget: 50, budget_duration: 7d }
    "product:chat": { budget_limit: 10, time_period: 1d }
    "a,b": { max_budget: 1 }
`.replace(
      'router_settings:',
      'router_settings:\n  provider_budget_config: { openai: { budget_limit: 100, time_period: 1d } }',
    );
    const keys = [
      {
        key_alias: 'chat',
        user_id: 'ada',
        model_max_budget: { 'GPT 4o': { budget_limit: 3, time_period: '1d' }, claude: 4, unheard: 1 },
        budget_limits: [
          { budget_duration: '1h', max_budget: 0.5 },
          { budget_duration: '30d', max_budget: 20 },
        ],
      },
      { key_alias: 'in a team', team_id: 't1', user_id: 'bob' },
      { key_alias: 'plain', user_id: 'cy' },
    ];
    const teams = [
      { team_id: 't1', team_alias: 'engines', model_max_budget: '{"openai/*": {"max_budget": 9}}' },
    ];
    const customers = [
      { user_id: 'ann', litellm_budget_table: { max_budget: 7 }, spend: 1 },
      { user_id: 'bob', litellm_budget_table: { max_budget: 1, budget_duration: '1d', rpm_limit: 5 } },
      { user_id: 'eve', blocked: true },
      { user_id: 'fay' },
    ];
    const { out, files } = await run(
      ['--config', 'config.yaml', '--keys', 'k.json', '--teams', 't.json', '--customers', 'c.json', ...OUT],
      {
        'config.yaml': config,
        'k.json': JSON.stringify({ keys }),
        't.json': JSON.stringify(teams),
        'c.json': JSON.stringify(customers),
      },
    );
    const file = parse(files['gateway.yaml'] ?? '');
    const [all, team, key] = file.policies;
    const ofCustomer = { counter_scope: 'user', unknown: 'skip' };
    expect(all).toEqual({
      ...{ name: 'litellm all', limit_micro_usd: 500_000_000, window: 'month', counter_scope: 'policy' },
      user_from_body: true,
      limits: [
        { name: 'each customer', ...ofCustomer, limit_micro_usd: 2_000_000, window: 'none' },
        { name: 'each customer, day', ...ofCustomer, limit_micro_usd: 1e15, window: 'day' },
        {
          ...{ name: 'tag engineering', when: { 'labels.tag': 'engineering' }, counter_scope: 'policy' },
          ...{ limit_micro_usd: 50_000_000, window: 'week' },
        },
        {
          ...{ name: 'tag product:chat', when: { 'labels.product': 'chat' }, counter_scope: 'policy' },
          ...{ limit_micro_usd: 10_000_000, window: 'day' },
        },
        {
          ...{ name: 'provider openai', models: ['openai/*'], counter_scope: 'policy' },
          ...{ limit_micro_usd: 100_000_000, window: 'day' },
        },
      ],
    });
    expect(team).toMatchObject({
      parent: 'litellm all',
      limits: [
        { name: 'openai/*', models: ['openai/*'], counter_scope: 'policy', limit_micro_usd: 9_000_000 },
      ],
    });
    expect(key).toEqual({
      ...{ name: 'litellm key chat', parent: 'litellm all', counter_scope: 'key' },
      limits: [
        {
          ...{ name: 'GPT 4o', models: ['azure/gpt-4o-eu', 'openai/gpt-4o'], counter_scope: 'key' },
          ...{ limit_micro_usd: 3_000_000, window: 'day' },
        },
        {
          ...{ name: 'claude', models: ['anthropic/claude-x'], counter_scope: 'key' },
          ...{ limit_micro_usd: 4_000_000, window: 'none' },
        },
        { name: 'each hour', counter_scope: 'key', limit_micro_usd: 500_000, window: 'hour' },
        { name: 'each month', counter_scope: 'key', limit_micro_usd: 20_000_000, window: 'month' },
      ],
    });
    const given = { policy: 'litellm all', ends_at: '2027-11-20T10:00:00.000Z' };
    const own = { ...given, reason: 'budget in LiteLLM' };
    expect(file.overrides).toEqual([
      { ...own, value: 'ann', limit: 'each customer', limit_micro_usd: 7_000_000 },
      { ...own, value: 'bob', limit: 'each customer, day', limit_micro_usd: 1_000_000 },
      { ...own, value: 'bob', limit: 'each customer', limit_micro_usd: 1e15 },
      { ...given, value: 'eve', limit: 'each customer', limit_micro_usd: 0, reason: 'blocked in LiteLLM' },
    ]);
    for (const line of [
      'key chat: model_max_budget.unheard: the config has no such group',
      'customer bob: rpm_limit: no counterpart',
      'tag_budget_config.a,b: no label can have this name or value',
      'requests name the customer by their field user, or by the header X-Svc-User',
      'key of cy, policy litellm all',
    ])
      expect(out).toContain(line);
    const { published, rule } = await loadServiceRules();
    expect(() => readApplyFile('gateway.yaml', files['gateway.yaml'] ?? '', published, rule)).not.toThrow();
  });

  it('reports every setting: what differs, and what is not converted', async () => {
    const { out } = await run([...ALL, '--dry-run']);
    for (const line of [
      'model_list[1].litellm_params.api_key: a literal credential is not converted: set OPENAI_API_KEY',
      'model_list[0].litellm_params.api_version',
      'model_list[3].model_info.supports_vision',
      'model_list[5].litellm_params.model: make a connector of the provider bedrock with auth of the kind aws by hand',
      'router_settings.model_group_alias.gone',
      'router_settings.redis_password: no counterpart',
      'general_settings.master_key',
      'general_settings.alerting',
      'environment_variables.SLACK_URL',
      'callers use the model router/gpt-4o',
      'key notes: spend',
      'key notes: metadata',
      'key batch: budget_duration → window day: there is no window of 3d; the limit is proportionally lower',
      'key old: it has expired',
      'key plain: model nobody-knows',
    ])
      expect(out).toContain(line);
  });

  it('writes nothing in a dry run, and also reads CSV', async () => {
    const csv =
      'token,key_alias,user_id,max_budget,budget_duration,models\nx,"a ""b"", c",ada,5.25,1d,"{gpt-4o,claude}"\n';
    const looked = await run(['--keys', 'keys.csv', '--dry-run', ...OUT], { 'keys.csv': csv });
    expect([looked.code, looked.files['gateway.yaml']]).toEqual([0, undefined]);
    const { files } = await run(['--keys', 'keys.csv', ...OUT], { 'keys.csv': csv });
    expect(parse(files['gateway.yaml'] ?? '').policies).toEqual([
      {
        name: 'litellm key a "b", c',
        limit_micro_usd: 5_250_000,
        window: 'day',
        allowed_models: ['litellm/gpt-4o', 'litellm/claude'],
        counter_scope: 'key',
      },
    ]);
  });

  it('sets an unreadable limit to 0, and disables a key with an unreadable expiry', async () => {
    const rows = [
      { key_alias: 'float', max_budget: 0.1 + 0.2 },
      { key_alias: 'words', max_budget: 'lots' },
      {
        key_alias: 'tier',
        max_budget: null,
        litellm_budget_table: { max_budget: 4, budget_duration: '1h', tpm_limit: 10 },
      },
      { key_alias: 'some day', expires: 'soon', max_budget: 1, budget_duration: '45s' },
    ];
    const files = { 'k.json': JSON.stringify({ keys: rows }) };
    const { out, files: written } = await run(['--keys', 'k.json', ...OUT], files);
    const { policies } = parse(written['gateway.yaml'] ?? '');
    expect(policies).toEqual([
      { name: 'litellm key float', limit_micro_usd: 300_000, window: 'none', counter_scope: 'key' },
      { name: 'litellm key words', limit_micro_usd: 0, window: 'none', counter_scope: 'key' },
      {
        name: 'litellm key tier',
        limit_micro_usd: 4_000_000,
        window: 'hour',
        tokens_per_minute: 10,
        counter_scope: 'key',
      },
      { name: 'litellm key some day', limit_micro_usd: 1_000_000, window: 'none', counter_scope: 'key' },
    ]);
    expect(out).toContain("key words: max_budget: it can't be read");
    expect(out).toContain("key some day: expiry: it can't be read, so the key is issued disabled");
    expect(out).toContain('there is no window of 45s');
  });

  it.each([
    [[], 'Give --config, --keys, or both.'],
    [['--config', 'config.yaml'], 'Give --out'],
    [['--config', 'nowhere', '--dry-run'], "nowhere can't be read"],
  ])('names the missing option or file in %j', async (args, said) => {
    const { code, err } = await run(args);
    expect([code, err]).toEqual([2, expect.stringContaining(said)]);
  });

  it('does not repeat any of a config that it cannot parse', async () => {
    const text = 'model_list:\n  - { api_key: sk-secret, : [\n';
    const { code, out, err } = await run(['--config', 'c.yaml', '--dry-run'], { 'c.yaml': text });
    expect([code, err]).toEqual([1, expect.stringMatching(/not valid YAML: line \d/)]);
    expect(out + err).not.toContain('sk-secret');
  });

  it('says how to list keys if the file contains only hashes', async () => {
    const { code, err } = await run(['--keys', 'k.json', '--dry-run'], { 'k.json': '{"keys":["a1b2"]}' });
    expect([code, err]).toEqual([1, expect.stringContaining('return_full_object=true')]);
  });
});
