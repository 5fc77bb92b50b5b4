import { bodyOf, type components } from '@weighbridge/client';
import { Command } from 'commander';
import { type Column, time, usd } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { attributeOf, limitOf, listOptions, parseSignedMicroUsd, parseTime } from './options.ts';
import { showRequest } from './requestDetail.ts';

type Request = components['schemas']['RequestRecord'];

/** The filters of the list, by the name of the option. */
const FILTERS = {
  principal: 'principal_id',
  key: 'key_id',
  policy: 'policy_id',
  model: 'model',
  session: 'session_id',
  team: 'team',
  'team-id': 'team_id',
  outcome: 'outcome',
} as const;

export function requestsCommand(cli: Cli): Command {
  const requests = new Command('requests').description(
    'single requests: what they cost, or why they were refused',
  );
  requests.addCommand(listCommand(cli));

  requests
    .command('show <request_id>')
    .description('show a request with its attempts and corrections, or why it was refused')
    .action(async (request_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { request_id } };
      showRequest(session, await bodyOf(session.client.GET('/api/v1/requests/{request_id}', { params })));
    });

  requests
    .command('correct <request_id>')
    .description('add a signed correction to the cost of a request; entries are never edited')
    .requiredOption(
      '--amount-usd <amount>',
      'the amount to add to the spend, such as 0.25, or -0.25 to give back',
      parseSignedMicroUsd,
    )
    .requiredOption('--reason <text>', 'the reason, which is recorded')
    .option('--event <event_id>', "the attempt to correct; default: the request's first")
    .option('--idempotency-key <text>', 'the same key again within 24 hours adds nothing')
    .addHelpText(
      'after',
      '\nExample:\n  weighbridge requests correct req_… --amount-usd -0.25 --reason "not on the vendor\'s invoice"',
    )
    .action(async (request_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const params = {
        path: { request_id },
        ...(options.idempotencyKey && { header: { 'idempotency-key': options.idempotencyKey } }),
      };
      const body = {
        amount_micro_usd: options.amountUsd,
        reason: options.reason,
        ...(options.event && { event_id: options.event }),
      };
      session.showOne(
        await bodyOf(session.client.POST('/api/v1/requests/{request_id}/corrections', { params, body })),
      );
    });

  return requests;
}

function listCommand(cli: Cli): Command {
  const command = listOptions(new Command('list'))
    .description('list requests, the newest first; without --from, of the last month')
    .option('--from <time>', 'start: a date-time', parseTime(cli.now))
    .option('--to <time>', 'end: a date-time', parseTime(cli.now))
    .option('--refused', 'only those that this service refused, as --outcome refused')
    .option('--estimated', 'only those with an attempt whose usage was estimated')
    .option('--price-incomplete', 'only those with an attempt whose price lacked something');
  for (const name of Object.keys(FILTERS)) command.option(`--${name} <value>`, `only this ${name}`);
  return command
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge requests list --refused\n  weighbridge requests list --key key_… --limit 20',
    )
    .action(async (options, self: Command) => {
      const session = await openSession(cli, self);
      const filters = Object.entries(FILTERS).map(
        ([name, field]) => [field, options[attributeOf(name)]] as const,
      );
      const query = {
        ...Object.fromEntries(filters.filter(([, value]) => value !== undefined)),
        ...(options.refused && { outcome: 'refused' as const }),
        ...(options.estimated && { estimated: true }),
        ...(options.priceIncomplete && { price_incomplete: true }),
        ...(options.from && { from: options.from }),
        ...(options.to && { to: options.to }),
      };
      const items = await firstItems(session, limitOf(options), async (page) =>
        bodyOf(session.client.GET('/api/v1/requests', { params: { query: { ...query, ...page } } })),
      );
      session.showList(items, COLUMNS);
    });
}

const COLUMNS: readonly Column<Request>[] = [
  ['TIME', ({ admitted_at }) => time(admitted_at)],
  ['REQUEST', ({ request_id, refusal }) => request_id || `${refusal?.count} more`],
  ['KEY', ({ key_name, key_id }) => key_name ?? key_id],
  ['PRINCIPAL', ({ principal_id }) => principal_id],
  ['MODEL', ({ attempts, model_requested }) => attempts.at(-1)?.model ?? model_requested],
  ['OUTCOME', ({ outcome }) => outcome],
  ['ATTEMPTS', ({ attempts }) => attempts.length],
  ['COST', ({ cost_micro_usd }) => usd(cost_micro_usd)],
  ['WHY', ({ refusal }) => whyRefused(refusal)],
];

function whyRefused(refusal: Request['refusal']): string {
  if (!refusal) return '';
  const policy = refusal.policy_name ?? refusal.policy_id;
  const limits = refusal.counter && `${refusal.counter.limits}${policy ? ` of ${policy}` : ''}`;
  return [`${refusal.http_status} ${refusal.code}`, ...(limits ? [limits] : [])].join(', ');
}
