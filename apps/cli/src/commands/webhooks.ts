import type { components } from '@weighbridge/client';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhookDeliveries,
  listWebhooks,
  redeliverWebhook,
  rotateWebhook,
  testWebhook,
  updateWebhook,
} from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import type { Flags } from '../resources/flags.ts';
import { showSecret } from '../resources/secrets.ts';
import { time } from '../session/output.ts';
import type { Cli, Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

const FLAGS: Flags<keyof components['schemas']['WebhookChanges']> = {
  // `--url` is the service's, of every command.
  url: { flag: 'address <url>' },
  format: { text: 'the shape of messages' },
  events: { flag: 'event <type>', text: 'only this type of event; may be repeated' },
  'filter.policy_ids': { text: 'only events of this policy and those below it; may be repeated' },
  'filter.team_ids': { text: 'only events of this team and those below it; may be repeated' },
  // `enable` and `disable` are commands.
  enabled: null,
  routing_key: {
    flag: 'routing-key-env <name>',
    text: "the variable that has PagerDuty's integration key",
    resolve: ({ env }, name: string) => {
      if (!env[name]) throw new UsageError(`The variable ${name} is empty.`);
      return env[name];
    },
  },
};

function showWebhookSecret(session: Session, webhook: components['schemas']['WebhookWithSecret']): void {
  showSecret(session, webhook, '', webhook.secret);
}

export function webhooksCommand(cli: Cli): Command {
  const webhooks = new Command('webhooks').description('where operators learn of events');
  addReads(webhooks, cli);
  addChanges(webhooks, cli);
  addDeliveries(webhooks, cli);
  addCall(webhooks.command('delete <webhook_id>'), cli, deleteWebhook);
  return webhooks;
}

function addReads(webhooks: Command, cli: Cli): void {
  addList(webhooks.command('list'), cli, listWebhooks, {
    query: { enabled: { text: 'only those that are enabled', no: 'only those that are not' } },
    columns: [
      ['ID', (webhook) => webhook.id],
      ['NAME', (webhook) => webhook.name],
      ['FORMAT', (webhook) => webhook.format],
      ['ENABLED', (webhook) => webhook.enabled],
      ['EVENTS', (webhook) => webhook.events.join(',') || 'all'],
      ['PENDING', (webhook) => webhook.pending],
      ['DELIVERED', (webhook) => time(webhook.last_delivered_at)],
      ['LAST ERROR', (webhook) => webhook.last_error],
    ],
  });
  addCall(webhooks.command('show <webhook_id>'), cli, getWebhook, {
    description: 'show a webhook, without its secret',
  });
}

function addChanges(webhooks: Command, cli: Cli): void {
  addCall(webhooks.command('create <name> <url>'), cli, createWebhook, {
    description: 'create a webhook and print its secret',
    // No option takes a secret: other users of a machine can read options.
    flags: { ...FLAGS, format: { ...FLAGS.format, default: 'json' }, secret: null },
    examples: [
      'SECRET=$(weighbridge webhooks create on-call https://hooks.example.com/weighbridge)',
      'weighbridge webhooks create team-chat https://hooks.slack.com/services/… --format slack --event budget.threshold',
    ],
    show: showWebhookSecret,
  });
  addCall(webhooks.command('update <webhook_id>'), cli, updateWebhook, {
    flags: FLAGS,
  });
  addCall(webhooks.command('enable <webhook_id>'), cli, updateWebhook, {
    description: 'send messages, and what is pending',
    body: { enabled: true },
  });
  addCall(webhooks.command('disable <webhook_id>'), cli, updateWebhook, {
    description: 'send nothing; what is pending waits for a day',
    body: { enabled: false },
  });
  addCall(webhooks.command('rotate <webhook_id>'), cli, rotateWebhook, {
    description: 'replace the secret of a webhook',
    flags: {
      grace_seconds: { text: 'how long messages carry both signatures, such as 1h', default: 0 },
    },
    examples: ['SECRET=$(weighbridge webhooks rotate whk_… --grace 1h)'],
    show: showWebhookSecret,
  });
}

function addDeliveries(webhooks: Command, cli: Cli): void {
  addCall(webhooks.command('test <webhook_id>'), cli, testWebhook, {
    description: 'send a test message now; exit code 1 if the endpoint does not accept it',
    show: (session, result) => {
      session.showOne(result);
      if (!result.ok) throw new Error('The endpoint did not accept the message.');
    },
  });
  addList(webhooks.command('deliveries <webhook_id>'), cli, listWebhookDeliveries, {
    description: 'list what a webhook was sent, newest first',
    query: { state: { text: 'only in this state' } },
    columns: [
      ['ID', (delivery) => delivery.id],
      ['EVENT', (delivery) => delivery.event.type],
      ['HAPPENED', (delivery) => time(delivery.event.timestamp)],
      ['STATE', (delivery) => delivery.state],
      ['ATTEMPTS', (delivery) => delivery.attempts],
      ['STATUS', (delivery) => delivery.status],
      ['ERROR', (delivery) => delivery.error],
    ],
  });
  addCall(webhooks.command('redeliver <webhook_id> <delivery_id>'), cli, redeliverWebhook);
}
