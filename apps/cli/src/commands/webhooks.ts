import { bodyOf, type components } from '@weighbridge/client';
import { Command, Option } from 'commander';
import { printable, time } from '../session/output.ts';
import { type Cli, firstItems, openSession, type Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { collectList, limitOf, listOptions, parseDuration } from './options.ts';

type WebhookWithSecret = components['schemas']['WebhookWithSecret'];
type NewWebhook = components['schemas']['NewWebhook'];
type WebhookEventType = components['schemas']['WebhookEventType'];

const FORMATS = ['json', 'slack', 'teams', 'pagerduty'] as const;

/** Prints only the secret on standard output, so that a shell can read it; the rest goes to standard error. */
function showSecret(session: Session, webhook: WebhookWithSecret): void {
  if (session.json) {
    session.showOne(webhook);
    return;
  }
  session.err(`${printable(webhook.name)} (${webhook.id}). The secret is shown only once:`);
  session.out(webhook.secret);
}

export function webhooksCommand(cli: Cli): Command {
  const webhooks = new Command('webhooks').description('where operators learn of events');
  addReads(webhooks, cli);
  addCreate(webhooks, cli);
  addUpdate(webhooks, cli);
  addSetEnabled(webhooks, cli, 'enable', true);
  addSetEnabled(webhooks, cli, 'disable', false);
  addRotate(webhooks, cli);
  addDeliveries(webhooks, cli);
  addDelete(webhooks, cli);
  return webhooks;
}

function addReads(webhooks: Command, cli: Cli): void {
  listOptions(webhooks.command('list'))
    .description('list webhooks by name')
    .option('--name <text>', 'only webhooks whose name contains this')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = { ...(options.name && { name_contains: options.name }) };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/webhooks', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, [
        ['ID', (webhook) => webhook.id],
        ['NAME', (webhook) => webhook.name],
        ['FORMAT', (webhook) => webhook.format],
        ['ENABLED', (webhook) => webhook.enabled],
        ['EVENTS', (webhook) => webhook.events.join(',') || 'all'],
        ['PENDING', (webhook) => webhook.pending],
        ['DELIVERED', (webhook) => time(webhook.last_delivered_at)],
        ['LAST ERROR', (webhook) => webhook.last_error],
      ]);
    });

  webhooks
    .command('show <webhook_id>')
    .description('show a webhook, without its secret')
    .action(async (webhook_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { webhook_id } };
      session.showOne(await bodyOf(session.client.GET('/api/v1/webhooks/{webhook_id}', { params })));
    });
}

interface Settings {
  readonly name?: string;
  readonly url?: string;
  readonly event?: readonly string[];
  readonly policy?: readonly string[];
  readonly team?: readonly string[];
  readonly routingKeyEnv?: string;
}

function settingOptions(command: Command): Command {
  return command
    .option('--event <type>', 'only this type of event; may be repeated', collectList)
    .option('--policy <id>', 'only events of this policy and those below it; may be repeated', collectList)
    .option('--team <id>', 'only events of this team and those below it; may be repeated', collectList)
    .option('--routing-key-env <name>', "the variable that has PagerDuty's integration key");
}

/** The body's fields of the options that were given. */
function settingsOf({ env }: Cli, { name, url, event, policy, team, routingKeyEnv }: Settings) {
  const routingKey = routingKeyEnv === undefined ? undefined : env[routingKeyEnv];
  if (routingKeyEnv !== undefined && !routingKey)
    throw new UsageError(`The variable ${routingKeyEnv} is empty.`);
  return {
    ...(name !== undefined && { name }),
    ...(url !== undefined && { url }),
    ...(event && { events: event as WebhookEventType[] }),
    ...((policy || team) && {
      filter: { ...(policy && { policy_ids: [...policy] }), ...(team && { team_ids: [...team] }) },
    }),
    ...(routingKey && { routing_key: routingKey }),
  };
}

function addCreate(webhooks: Command, cli: Cli): void {
  settingOptions(webhooks.command('create <name> <url>'))
    .description('create a webhook and print its secret')
    .addOption(new Option('--format <format>', 'the shape of messages').choices(FORMATS).default('json'))
    .addHelpText(
      'after',
      '\nExamples:\n  SECRET=$(weighbridge webhooks create on-call https://hooks.example.com/weighbridge)\n  weighbridge webhooks create team-chat https://hooks.slack.com/services/… --format slack --event budget.threshold',
    )
    .action(async (name: string, url: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const body: NewWebhook = { name, url, format: options.format, ...settingsOf(cli, options) };
      showSecret(session, await bodyOf(session.client.POST('/api/v1/webhooks', { body })));
    });
}

function addUpdate(webhooks: Command, cli: Cli): void {
  settingOptions(webhooks.command('update <webhook_id>'))
    .description('change the given settings of a webhook')
    .option('--name <name>', 'another name')
    .option('--url <url>', 'another address')
    .addOption(new Option('--format <format>', 'another shape of messages').choices(FORMATS))
    .action(async (webhook_id: string, options, command: Command) => {
      const body = { ...(options.format && { format: options.format }), ...settingsOf(cli, options) };
      if (Object.keys(body).length === 0) throw new UsageError('Give at least one setting to change.');
      const session = await openSession(cli, command);
      const params = { path: { webhook_id } };
      session.showOne(await bodyOf(session.client.PATCH('/api/v1/webhooks/{webhook_id}', { params, body })));
    });
}

function addSetEnabled(webhooks: Command, cli: Cli, verb: 'enable' | 'disable', enabled: boolean): void {
  webhooks
    .command(`${verb} <webhook_id>`)
    .description(
      enabled ? 'send messages, and what is pending' : 'send nothing; what is pending waits for a day',
    )
    .action(async (webhook_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { webhook_id } };
      const body = { enabled };
      session.showOne(await bodyOf(session.client.PATCH('/api/v1/webhooks/{webhook_id}', { params, body })));
    });
}

function addRotate(webhooks: Command, cli: Cli): void {
  webhooks
    .command('rotate <webhook_id>')
    .description('replace the secret of a webhook')
    .option('--grace <duration>', 'how long messages carry both signatures, such as 1h', parseDuration, 0)
    .addHelpText('after', '\nExample:\n  SECRET=$(weighbridge webhooks rotate whk_… --grace 1h)')
    .action(async (webhook_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { webhook_id } };
      const body = { grace_seconds: options.grace };
      const call = session.client.POST('/api/v1/webhooks/{webhook_id}/rotate', { params, body });
      showSecret(session, await bodyOf(call));
    });
}

function addDeliveries(webhooks: Command, cli: Cli): void {
  webhooks
    .command('test <webhook_id>')
    .description('send a test message now; exit code 1 if the endpoint does not accept it')
    .action(async (webhook_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { webhook_id } };
      const result = await bodyOf(session.client.POST('/api/v1/webhooks/{webhook_id}/test', { params }));
      session.showOne(result);
      if (!result.ok) throw new Error('The endpoint did not accept the message.');
    });

  listOptions(webhooks.command('deliveries <webhook_id>'))
    .description('list what a webhook was sent, newest first')
    .addOption(
      new Option('--state <state>', 'only in this state').choices(['pending', 'delivered', 'given_up']),
    )
    .action(async (webhook_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = { ...(options.state && { state: options.state }) };
      const items = await firstItems(session, limitOf(options), (page) => {
        const params = { path: { webhook_id }, query: { ...filter, ...page } };
        return bodyOf(session.client.GET('/api/v1/webhooks/{webhook_id}/deliveries', { params }));
      });
      session.showList(items, [
        ['ID', (delivery) => delivery.id],
        ['EVENT', (delivery) => delivery.event.type],
        ['HAPPENED', (delivery) => time(delivery.event.timestamp)],
        ['STATE', (delivery) => delivery.state],
        ['ATTEMPTS', (delivery) => delivery.attempts],
        ['STATUS', (delivery) => delivery.status],
        ['ERROR', (delivery) => delivery.error],
      ]);
    });

  webhooks
    .command('redeliver <webhook_id> <delivery_id>')
    .description('send a message again, with the same webhook-id')
    .action(async (webhook_id: string, delivery_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { webhook_id, delivery_id } };
      const path = '/api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver';
      session.showOne(await bodyOf(session.client.POST(path, { params })));
    });
}

function addDelete(webhooks: Command, cli: Cli): void {
  webhooks
    .command('delete <webhook_id>')
    .description('delete a webhook, with its log and what is pending')
    .action(async (webhook_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { webhook_id } };
      session.showOne(await bodyOf(session.client.DELETE('/api/v1/webhooks/{webhook_id}', { params })));
    });
}
