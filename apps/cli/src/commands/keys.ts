import { bodyOf, type components } from '@weighbridge/client';
import { Command, Option } from 'commander';
import { type Column, printable, time } from '../session/output.ts';
import { type Cli, firstItems, openSession, type Session } from '../session/session.ts';
import { collectList, limitOf, listOptions, parseDuration, parseTime } from './options.ts';

type Key = components['schemas']['Key'];
type NewKey = components['schemas']['NewKey'];
type IssuedKey = components['schemas']['IssuedKey'];

const COLUMNS: readonly Column<Key>[] = [
  ['ID', (key) => key.id],
  ['NAME', (key) => key.name],
  ['KIND', (key) => key.kind],
  ['PRINCIPAL', (key) => key.principal_id],
  ['POLICY', (key) => key.policy_id],
  ['STATE', state],
  ['EXPIRES', (key) => time(key.expires_at)],
  ['LAST USED', (key) => time(key.last_used_at)],
  ['HINT', (key) => key.key_hint],
];

function state(key: Key): string {
  if (key.revoked_at) return 'revoked';
  return key.disabled ? 'disabled' : 'active';
}

/** The secret alone goes to standard output, so that a shell can take it; what belongs to it goes beside. */
function showSecret(session: Session, issued: IssuedKey): void {
  if (session.json) {
    session.showOne(issued);
    return;
  }
  session.err(
    `${printable(issued.name)} (${issued.id}), governed by ${issued.policy_id}. The secret is shown this once:`,
  );
  session.out(issued.key);
}

export function keysCommand(cli: Cli): Command {
  const keys = new Command('keys').description('issue and manage keys');

  keys
    .command('create <name>')
    .description('issue a key; standard output gets its secret and nothing else')
    .addOption(new Option('--kind <kind>', 'who holds it').choices(['service', 'user']))
    .option('--principal <id>', "whose it is (an operator's choice; else the caller's own)")
    .option('--policy <id>', 'the policy that governs it')
    .option('--scope <scope>', 'what it may do; may be repeated, or given with commas', collectList)
    .option('--expires <time>', 'a date-time, or a duration such as 30d', parseTime(cli.now))
    .option('--disabled', 'issue it disabled')
    .addHelpText(
      'after',
      '\nExamples:\n  KEY=$(weighbridge keys create "my app" --scope inference)\n  weighbridge keys create ci --scope keys:read,usage:read --expires 90d --json',
    )
    .action(async (name: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const body: NewKey = {
        name,
        ...(options.kind && { kind: options.kind }),
        ...(options.principal && { principal_id: options.principal }),
        ...(options.policy && { policy_id: options.policy }),
        ...(options.scope && { scopes: options.scope }),
        ...(options.expires && { expires_at: options.expires }),
        ...(options.disabled && { disabled: true }),
      };
      showSecret(session, await bodyOf(session.client.POST('/api/v1/keys', { body })));
    });

  listOptions(keys.command('list'))
    .description('list keys, the newest first')
    .option('--principal <id>', 'of this principal')
    .option('--policy <id>', 'governed by this policy')
    .addOption(new Option('--kind <kind>', 'of this kind').choices(['service', 'user']))
    .option('--disabled', 'only disabled ones')
    .option('--expiring-before <time>', 'a date-time, or a duration such as 30d', parseTime(cli.now))
    .option('--name <text>', 'whose name contains this')
    .addHelpText('after', '\nExample:\n  weighbridge keys list --expiring-before 7d')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = {
        ...(options.principal && { principal_id: options.principal }),
        ...(options.policy && { policy_id: options.policy }),
        ...(options.kind && { kind: options.kind }),
        ...(options.disabled && { disabled: 'true' as const }),
        ...(options.expiringBefore && { expiring_before: options.expiringBefore }),
        ...(options.name && { name_contains: options.name }),
      };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/keys', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, COLUMNS);
    });

  keys
    .command('show <key_id>')
    .description('show a key, without its secret')
    .action(async (key_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      session.showOne(
        await bodyOf(session.client.GET('/api/v1/keys/{key_id}', { params: { path: { key_id } } })),
      );
    });

  for (const [name, disabled] of [
    ['disable', true],
    ['enable', false],
  ] as const) {
    keys
      .command(`${name} <key_id>`)
      .description(
        disabled ? 'refuse a key from now on; enable takes that back' : 'let a disabled key in again',
      )
      .action(async (key_id: string, _options, command: Command) => {
        const session = await openSession(cli, command);
        const params = { path: { key_id } };
        const key = await bodyOf(
          session.client.PATCH('/api/v1/keys/{key_id}', { params, body: { disabled } }),
        );
        session.showOne(key);
      });
  }

  keys
    .command('rotate <key_id>')
    .description('give a key another secret; its id, its policy and its spend stay')
    .option('--grace <duration>', 'how long the old secret goes on working, such as 1h', parseDuration, 0)
    .addHelpText('after', '\nExample:\n  KEY=$(weighbridge keys rotate key_… --grace 1h)')
    .action(async (key_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const body = { grace_seconds: options.grace };
      const params = { path: { key_id } };
      showSecret(
        session,
        await bodyOf(session.client.POST('/api/v1/keys/{key_id}/rotate', { params, body })),
      );
    });

  keys
    .command('revoke <key_id>')
    .description('refuse a key for good; its spend stays on record')
    .action(async (key_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      session.showOne(
        await bodyOf(session.client.DELETE('/api/v1/keys/{key_id}', { params: { path: { key_id } } })),
      );
    });

  return keys;
}
