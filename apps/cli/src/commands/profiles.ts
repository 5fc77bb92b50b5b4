import { bodyOf, type components } from '@weighbridge/client';
import { getProfile, listProfiles } from '@weighbridge/client/operations';
import { Command, Option } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import { parseJson } from '../resources/flags.ts';
import { price, printable, usd } from '../session/output.ts';
import { type Cli, openSession, type Session } from '../session/session.ts';
import { profileSettingsCommands } from './profileSettings.ts';

type Explanation = components['schemas']['Explanation'];
type ExplainRequest = components['schemas']['ExplainRequest'];

const PROFILE_ID = /^prf_/;

export function profilesCommand(cli: Cli): Command {
  const profiles = new Command('profiles').description(
    'routing profiles: the models behind router/<profile>, and their order',
  );

  addList(profiles.command('list'), cli, listProfiles, {
    description: 'list profiles by name',
    columns: [
      ['ID', (profile) => profile.id],
      ['NAME', (profile) => profile.name],
      ['STRATEGY', (profile) => profile.strategy],
      ['MODELS', (profile) => profile.targets.map(({ model }) => model)],
    ],
  });
  addCall(profiles.command('show <profile_id>'), cli, getProfile, { description: 'show a profile' });
  profileSettingsCommands(cli, profiles);

  profiles
    .command('explain <name>')
    .description(
      "show what a request's model stands for, where it would go, and why: the id of a profile, or any name that a request may have",
    )
    .addOption(
      new Option('--route <route>', 'the API operation').choices([
        'chat_completions',
        'responses',
        'messages',
        'embeddings',
        'generate_content',
        'embed_content',
        'completions',
      ]),
    )
    .option('--key <key_id>', 'as for a request with this key')
    .option('--policy <policy_id>', 'as for a key with this policy')
    .option('--workload-type <text>', 'the X-Svc-Workload-Type of the request')
    .option('--session <text>', 'the X-Svc-Session-Id of the request')
    .option(
      '--attribution <json>',
      'what else it says, such as {"user": "ann", "labels": {"tier": "gold"}}',
      parseJson,
    )
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge profiles explain prf_… --key key_…\n  weighbridge profiles explain claude-sonnet-4-5 --route messages\n  weighbridge profiles explain router/cheap-chat --policy pol_…\n  weighbridge profiles explain openai/gpt-5.4 --json',
    )
    .action(async (name: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const body: ExplainRequest = {
        ...(options.route && { route: options.route }),
        ...(options.key && { key_id: options.key }),
        ...(options.policy && { policy_id: options.policy }),
        ...(options.workloadType && { workload_type: options.workloadType }),
        ...(options.session && { session_id: options.session }),
        ...(options.attribution && { attribution: options.attribution }),
      };
      const { client } = session;
      const explained = PROFILE_ID.test(name)
        ? client.POST('/api/v1/profiles/{profile_id}/explain', {
            params: { path: { profile_id: name } },
            body,
          })
        : client.POST('/api/v1/explain', { body: { ...body, model: name } });
      showExplanation(session, await bodyOf(explained));
    });

  return profiles;
}

type NameRule = Explanation['resolved_name']['by'];

/** What the name stands for, by the rule that says so. */
const RULES: Readonly<Record<NameRule, (explanation: Explanation) => string>> = {
  id: ({ profile_id }) => (profile_id === null ? 'is a model' : `is the routing profile ${profile_id}`),
  alias: ({ model, resolved_name }) => `stands for ${model}, by the alias ${resolved_name.alias_id ?? ''}`,
  name: ({ model }) => `stands for ${model}, as its bare name`,
  other_name: ({ model, resolved_name: { sent_name } }) =>
    `stands for ${model}, as another name of it${sent_name === null ? '' : `; vendors get ${sent_name}`}`,
};

function showExplanation(session: Session, explanation: Explanation): void {
  if (session.json) return void session.showOne(explanation);
  const { model, resolved_name, refusal, budgets, models, excluded, not_known } = explanation;
  session.out(printable(`${resolved_name.name} ${RULES[resolved_name.by](explanation)}`));
  if (refusal) session.out(printable(`${model} is refused: ${refusal.status} ${refusal.code}`));
  else {
    session.showList(
      models.flatMap((one) => one.connectors.map((connector, at) => ({ ...one, connector, at }))),
      [
        ['MODEL', (row) => row.model],
        ['CONNECTOR', (row) => row.connector.name],
        ['PRIORITY', (row) => row.connector.priority],
        ['WEIGHT', (row) => row.connector.weight],
        ['INPUT', (row) => price(row.connector.input_price)],
        ['OUTPUT', (row) => price(row.connector.output_price)],
        ['TRANSLATED TO', (row) => row.connector.translated_to],
        ['WHY', (row) => (row.at === 0 ? row.why : undefined)],
      ],
    );
  }
  showLimits(session, budgets, models);
  if (excluded.length > 0) {
    session.out('\nNot used:');
    session.showList(excluded, [
      ['MODEL', (row) => row.model],
      ['CONNECTOR', (row) => row.connector_id],
      ['WHY', (row) => row.why],
    ]);
  }
  session.err(['Not known here:', ...not_known.map((fact) => `- ${printable(fact)}`)].join('\n'));
}

/** What a request reserves from, with what is left of it. */
function showLimits(session: Session, budgets: Explanation['budgets'], models: Explanation['models']): void {
  const limited = budgets.filter(({ limit_micro_usd }) => limit_micro_usd !== null);
  const rows = [
    ...limited.map((one) => ({ ...one, model: '*', name: '', value: null, effect: 'counts' })),
    ...models.flatMap(({ model, limits }) => limits.map((one) => ({ ...one, model }))),
  ];
  if (rows.length === 0) return;
  session.out('\nLimits:');
  session.showList(rows, [
    ['MODEL', (row) => row.model],
    ['POLICY', (row) => row.policy_id],
    ['LIMIT', (row) => row.name],
    ['PER', (row) => row.counter_scope],
    ['OF', (row) => row.value],
    ['EFFECT', (row) => row.effect],
    ['AMOUNT', (row) => usd(row.limit_micro_usd)],
    ['LEFT', (row) => (row.headroom_micro_usd === null ? null : usd(row.headroom_micro_usd))],
    ['RESET', (row) => row.reset],
  ]);
}
