import { describe, expect, it } from 'vitest';
import { readApplyFile } from './applyFile.ts';
import type { Rule } from './desiredState.ts';
import { loadServiceRules } from './serviceRules.ts';

const service = await loadServiceRules();
const read = (text: string, rule: Rule = service.rule) =>
  readApplyFile('gateway.yaml', text, service.published, rule);

/** The errors of an invalid file, one per line. */
function errorsOf(text: string): string[] {
  try {
    read(text);
  } catch (error) {
    return (error as Error).message.split('\n');
  }
  return [];
}

describe('an apply file', () => {
  it('has the line of each resource', () => {
    const file = read(`
policies:
  - name: company
    limit_micro_usd: 1000000000
    window: month
  - name: team
    parent: company
    default_for: all
principals:
  - id: ada@example.com
    policy: team
profiles:
  - name: cheap-chat
    strategy: cheapest
    targets: [{ model: openai/gpt-4o-mini }, { model: mock/echo }]
`);
    expect(file.policies.map(({ line, fields }) => [line, fields.name])).toEqual([
      [3, 'company'],
      [6, 'team'],
    ]);
    expect(file.principals).toHaveLength(1);
    expect(file.profiles[0]?.line).toBe(13);
    expect(file.connectors).toEqual([]);
  });

  it('may have dollars in further limits, as in policies', () => {
    const policy = (limit: string) => `policies:\n  - name: a\n    limits: [{ name: each user, ${limit} }]\n`;
    const { policies } = read(policy('limit_usd: 0.30'));
    expect(policies[0]?.fields.limits).toEqual([{ name: 'each user', limit_micro_usd: 300_000 }]);
    expect(read(policy('limit_micro_usd: 5')).policies[0]?.fields.limits).toEqual([
      { name: 'each user', limit_micro_usd: 5 },
    ]);
    expect(errorsOf(policy('limit_usd: unlimited'))).toEqual([
      'gateway.yaml:3: "unlimited" is not an amount of dollars such as 12.50',
    ]);
    expect(errorsOf(policy('limit_usd: 1, limit_micro_usd: 5'))).toEqual([
      'gateway.yaml:3: limit_usd and limit_micro_usd are the same: give one',
    ]);
  });

  it('may have decimal prices, which are read digit by digit', () => {
    const file = read(`
models:
  - model: acme/large
    context_window: 1000
    price: { input_price: 0.1, output_price: "2.50", cache_read_price: 0.10 }
connectors:
  - name: negotiated
    provider: openai
    credential_ref: env:OPENAI_API_KEY
    prices:
      openai/gpt-4o-mini: { input_price: 0.000000001, output_price: { currency_code: USD, units: 3, nanos: 0 } }
`);
    const usd = (units: number, nanos: number) => ({ currency_code: 'USD', units, nanos });
    expect(file.models[0]?.fields.price).toEqual({
      input_price: usd(0, 100_000_000),
      output_price: usd(2, 500_000_000),
      cache_read_price: usd(0, 100_000_000),
    });
    expect(file.connectors[0]?.fields.prices).toEqual({
      'openai/gpt-4o-mini': { input_price: usd(0, 1), output_price: usd(3, 0) },
    });
  });

  it('may have decimal prices of modalities, variants and tools', () => {
    const file = read(`
models:
  - model: acme/large
    price:
      input_price: 1
      output_price: 2
      output_audio_price: 20.5
      input_image_price: null
      variants:
        - service_tier: priority
          input_price: 2.10
          output_price: 4
          tiers: [{ above_input_tokens: 5, input_price: 3, output_price: 4 }]
      tool_prices: { web_search: 0.010, constructor: { currency_code: USD, units: 1, nanos: 0 } }
`);
    const usd = (units: number, nanos = 0) => ({ currency_code: 'USD', units, nanos });
    expect(file.models[0]?.fields.price).toEqual({
      input_price: usd(1),
      output_price: usd(2),
      output_audio_price: usd(20, 500_000_000),
      input_image_price: null,
      variants: [
        {
          service_tier: 'priority',
          input_price: usd(2, 100_000_000),
          output_price: usd(4),
          tiers: [{ above_input_tokens: 5, input_price: usd(3), output_price: usd(4) }],
        },
      ],
      tool_prices: { web_search: usd(0, 10_000_000), constructor: usd(1) },
    });
  });

  it('may be empty', () => {
    expect(read('{}').policies).toEqual([]);
    expect(read('policies: []').policies).toEqual([]);
  });

  it.each([
    ['bad YAML', 'policies:\n  - name: [a\n', 'gateway.yaml:3: '],
    ['a repeated field', 'policies:\n  - name: a\n    name: b\n', 'gateway.yaml:3: Map keys must be unique'],
    ['a repeated section', 'policies: []\npolicies: []\n', 'gateway.yaml:2: Map keys must be unique'],
    [
      'two documents',
      'policies: []\n---\npolicies: []\n',
      'gateway.yaml:2: a file may contain only one document',
    ],
    ['nothing', '', 'gateway.yaml:1: the file is empty'],
    ['another kind of file', '- a\n', 'gateway.yaml:1: the file: must be object'],
    [
      'an unknown section',
      'policies: []\nrouters: []\n',
      'gateway.yaml:2: the file: routers is not a field here',
    ],
    [
      'an unknown field',
      'policies:\n  - name: a\n    limit: 5\n',
      'gateway.yaml:3: policies.0: limit is not a field here',
    ],
    [
      'a missing field',
      'policies:\n  - window: day\n',
      "gateway.yaml:2: policies.0: must have required property 'name'",
    ],
    [
      'a wrong type',
      'policies:\n  - name: a\n    limit_micro_usd: "5"\n',
      'gateway.yaml:3: policies.0.limit_micro_usd: must be',
    ],
    [
      'a wrong choice',
      'policies:\n  - name: a\n    window: year\n',
      'gateway.yaml:3: policies.0.window: must be one of hour, day',
    ],
    [
      'an id for a name',
      'policies:\n  - name: a\n    parent_policy_id: pol_1\n',
      'gateway.yaml:3: policies.0: parent_policy_id is not',
    ],
    [
      'a name that breaks a rule',
      'policies:\n  - name: ok\n  - name: " "\n',
      'gateway.yaml:3: This name cannot be used',
    ],
    ['no timezone', 'policies:\n  - name: a\n    timezone: Mars/Base\n', 'gateway.yaml:3: timezone must be'],
    [
      'a bad profile name',
      'profiles:\n  - strategy: ordered\n    name: Big\n    targets: [{model: a/b}]\n',
      'gateway.yaml:3: A profile name has',
    ],
    [
      'a profile as a target',
      'profiles:\n  - name: a\n    strategy: ordered\n    targets:\n      - model: a/b\n      - model: router/b\n',
      'gateway.yaml:6: targets.1.model must',
    ],
    [
      'a secret',
      'connectors:\n  - name: a\n    provider: openai\n    credential: sk-secret\n',
      'gateway.yaml:4: connectors.0: credential is not a field here',
    ],
    [
      'a price that is no amount',
      'models:\n  - model: a/b\n    price: { input_price: 1e-3, output_price: 1 }\n',
      'gateway.yaml:3: models.0.price.input_price: must',
    ],
    [
      'tiers that do not rise',
      'models:\n  - model: a/b\n    price: { input_price: 1, output_price: 1, tiers: [{ above_input_tokens: 9, input_price: 1, output_price: 1 }, { above_input_tokens: 9, input_price: 1, output_price: 1 }] }\n',
      'gateway.yaml:2: above_input_tokens must rise',
    ],
    [
      'a variant of the list price',
      'models:\n  - model: a/b\n    price:\n      input_price: 1\n      output_price: 1\n      variants: [{ service_tier: default, input_price: 1, output_price: 1 }]\n',
      'gateway.yaml:2: "default" stands for what the list price covers',
    ],
    [
      'a price of a tool that is no amount',
      'models:\n  - model: a/b\n    price:\n      input_price: 1\n      output_price: 1\n      tool_prices: { web_search: 1e-3 }\n',
      'gateway.yaml:6: models.0.price.tool_prices.web_search: must',
    ],
    [
      'an id of no one',
      'teams:\n  - name: a\n    members:\n      - ada\n      - " x"\n',
      'gateway.yaml:5: A principal id',
    ],
    [
      'a role of a team',
      'principals:\n  - id: ada\n    role: lead\n',
      'gateway.yaml:3: principals.0.role: must',
    ],
    ['the id of a team', 'teams:\n  - name: a\n    parent_team_id: b\n', 'Did you mean parent?'],
    [
      'patterns of another provider',
      'connectors:\n  - name: a\n    provider: openai\n    models: ["anthropic/*"]\n',
      'gateway.yaml:4: "anthropic/*" cannot match a model of the provider',
    ],
    [
      'the same resource twice',
      'policies:\n  - name: a\n  - name: b\n  - name: a\n',
      'gateway.yaml:4: policies: a is already named in line 2',
    ],
    [
      'two defaults',
      'policies:\n  - name: a\n    default_for: all\n  - name: b\n    default_for: all\n',
      'gateway.yaml:5: a is already the default for all',
    ],
  ])('that has %s is refused with its line', (_, text, expected) => {
    expect(errorsOf(text)[0]).toContain(expected);
  });

  it('is told what was meant, in one line for each mistake', () => {
    expect(errorsOf('principals: [{ id: ada, role: admin }]')).toEqual([
      'gateway.yaml:1: principals.0.role: must be one of operator, finance, auditor, not "admin"',
    ]);
    expect(errorsOf('policies: [{ name: a, window: monthly, on_exhausted: cheap }]')).toEqual([
      'gateway.yaml:1: policies.0.window: must be one of hour, day, week, month, none, not "monthly". Did you mean month?',
      expect.stringMatching(/on_exhausted: must be object or null, not "cheap"\. Example: /),
    ]);
    expect(errorsOf('policies:\n\t- name: a')).toEqual([
      'gateway.yaml:2: Tabs are not allowed as indentation. Use spaces',
    ]);
    expect(errorsOf('keys: [{ name: a, secret: x }]')[0]).toMatch(
      /Did you mean .*secret_file.*Example: \{name: checkout/,
    );
  });

  it('is refused with all its errors at once', () => {
    expect(
      errorsOf(
        'policies:\n  - name: a\n    window: year\n    colour: red\nprincipals:\n  - id: 5\n    team: b\n',
      ),
    ).toHaveLength(4);
  });

  it('cannot expand to more than its size', () => {
    const bomb = ['a: &a [x, x, x, x, x, x, x, x, x, x]'];
    for (let at = 1; at < 9; at++) {
      const [name, before] = [String.fromCharCode(97 + at), String.fromCharCode(96 + at)];
      bomb.push(`${name}: &${name} [${Array(10).fill(`*${before}`).join(', ')}]`);
    }
    expect(errorsOf(bomb.join('\n'))[0]).toContain('gateway.yaml:1: ');
  });
});
