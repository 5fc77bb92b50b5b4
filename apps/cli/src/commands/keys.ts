import { bodyOf, type components } from '@weighbridge/client';
import { Command, Option } from 'commander';
import { type Column, printable, time } from '../session/output.ts';
import { type Cli, firstItems, openSession, type Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { collectList, limitOf, listOptions, parseDuration, parseTime } from './options.ts';

type Key = components['schemas']['Key'];
type NewKey = components['schemas']['NewKey'];
type KeyChanges = components['schemas']['KeyChanges'];
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
  if (key.disabled) return 'disabled';
  return key.grace_ends_at ? `active, old secret until ${time(key.grace_ends_at)}` : 'active';
}

/** Prints only the secret on standard output, so that a shell can read it; the rest goes to standard error. */
function showSecret(session: Session, issued: IssuedKey): void {
  if (session.json) {
    session.showOne(issued);
    return;
  }
  session.err(
    `${printable(issued.name)} (${issued.id}), governed by ${issued.policy_id}. The secret is shown only once:`,
  );
  session.out(issued.key);
}

export function keysCommand(cli: Cli): Command {
  const keys = new Command('keys').description('issue and manage keys');
  addCreate(keys, cli);
  addPlayground(keys, cli);
  addList(keys, cli);
  addShow(keys, cli);
  addUpdate(keys, cli);
  addSetDisabled(keys, cli, 'disable', true);
  addSetDisabled(keys, cli, 'enable', false);
  addRotate(keys, cli);
  addRevoke(keys, cli);
  return keys;
}

function addCreate(keys: Command, cli: Cli): void {
  keys
    .command('create <name>')
    .description('issue a key; only its secret goes to standard output')
    .addOption(new Option('--kind <kind>', 'the kind of its holder').choices(['service', 'user']))
    .option('--principal <id>', "the principal that owns it (operators only; default: the caller's own)")
    .option('--policy <id>', 'the policy that governs it')
    .option('--scope <scope>', 'a scope; may be repeated, or given with commas', collectList)
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
}

function addPlayground(keys: Command, cli: Cli): void {
  keys
    .command('playground')
    .description(
      'issue a key of your own that infers for 15 minutes; only its secret goes to standard output',
    )
    .action(async (_options, command: Command) => {
      const session = await openSession(cli, command);
      showSecret(session, await bodyOf(session.client.POST('/api/v1/keys/playground')));
    });
}

function addList(keys: Command, cli: Cli): void {
  listOptions(keys.command('list'))
    .description('list keys, newest first')
    .option('--principal <id>', 'only keys of this principal')
    .option('--policy <id>', 'only keys that this policy governs')
    .addOption(new Option('--kind <kind>', 'only keys of this kind').choices(['service', 'user']))
    .option('--disabled', 'only disabled keys')
    .option(
      '--expiring-before <time>',
      'only keys that expire before this date-time, or duration such as 30d',
      parseTime(cli.now),
    )
    .option('--name <text>', 'only keys whose name contains this')
    .addHelpText('after', '\nExample:\n  weighbridge keys list --expiring-before 7d')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = {
        ...(options.principal && { principal_id: options.principal }),
        ...(options.policy && { policy_id: options.policy }),
        ...(options.kind && { kind: options.kind }),
        ...(options.disabled && { disabled: true }),
        ...(options.expiringBefore && { expiring_before: options.expiringBefore }),
        ...(options.name && { name_contains: options.name }),
      };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/keys', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, COLUMNS);
    });
}

function addShow(keys: Command, cli: Cli): void {
  keys
    .command('show <key_id>')
    .description('show a key, without its secret')
    .action(async (key_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      session.showOne(
        await bodyOf(session.client.GET('/api/v1/keys/{key_id}', { params: { path: { key_id } } })),
      );
    });
}

function addUpdate(keys: Command, cli: Cli): void {
  keys
    .command('update <key_id>')
    .description('change the given fields of a key')
    .option('--name <name>', 'the new name')
    .option('--policy <policy_id>', "the policy that governs it, or none for its principal's or the default")
    .option('--expires <time>', 'a date-time, or a duration such as 30d, or never', expiry(cli.now))
    .option('--disabled', 'refuse it until it is enabled again')
    .option('--no-disabled', 'accept it again')
    .addHelpText('after', '\nExample:\n  weighbridge keys update key_… --name checkout --expires 90d')
    .action(async (key_id: string, options, command: Command) => {
      const body: KeyChanges = {
        ...(options.name !== undefined && { name: options.name }),
        ...(options.policy !== undefined && { policy_id: options.policy === 'none' ? null : options.policy }),
        ...(options.expires !== undefined && {
          expires_at: options.expires === 'never' ? null : options.expires,
        }),
        ...(options.disabled !== undefined && { disabled: options.disabled }),
      };
      if (Object.keys(body).length === 0)
        throw new UsageError('Nothing to change. Give at least one option.');
      const session = await openSession(cli, command);
      const params = { path: { key_id } };
      session.showOne(await bodyOf(session.client.PATCH('/api/v1/keys/{key_id}', { params, body })));
    });
}

function expiry(now: () => Date): (text: string) => string {
  const parse = parseTime(now);
  return (text) => (text === 'never' ? text : parse(text));
}

function addSetDisabled(keys: Command, cli: Cli, name: 'disable' | 'enable', disabled: boolean): void {
  keys
    .command(`${name} <key_id>`)
    .description(disabled ? 'refuse a key until it is enabled again' : 'accept a disabled key again')
    .action(async (key_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { key_id } };
      const key = await bodyOf(session.client.PATCH('/api/v1/keys/{key_id}', { params, body: { disabled } }));
      session.showOne(key);
    });
}

function addRotate(keys: Command, cli: Cli): void {
  keys
    .command('rotate <key_id>')
    .description('replace the secret of a key; its id, policy and spend stay')
    .option(
      '--grace <duration>',
      'how long the old secret can still read and infer, such as 1h',
      parseDuration,
      0,
    )
    .addHelpText('after', '\nExample:\n  KEY=$(weighbridge keys rotate key_… --grace 1h)')
    .action(async (key_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const body = { grace_seconds: options.grace };
      const params = { path: { key_id } };
      showSecret(
        session,
        await bodyOf(session.client.POST('/api/v1/keys/{key_id}/rotate', { params, body })),
      );
      const endsAt = new Date(cli.now().getTime() + options.grace * 1_000);
      if (options.grace > 0)
        session.err(`The old secret can read and infer until ${time(endsAt.toISOString())}.`);
    });
}

function unknownIssuers(count: number): string {
  return `${count} keys in use may descend from it too: an earlier release issued them and recorded no issuer. List them with \`weighbridge keys list\` and revoke those that you don't know.`;
}

function addRevoke(keys: Command, cli: Cli): void {
  keys
    .command('revoke <key_id>')
    .description('revoke a key for good; its spend stays on record')
    .option('--descendants', 'also the keys that were issued with it, with those, and so on')
    .addHelpText('after', '\nExample:\n  weighbridge keys revoke key_… --descendants')
    .action(async (key_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const query = options.descendants ? { descendants: true } : {};
      const revoked = await bodyOf(
        session.client.DELETE('/api/v1/keys/{key_id}', { params: { path: { key_id }, query } }),
      );
      session.showOne(revoked);
      const { unknown_issuer: unknown = 0 } = revoked.descendants ?? {};
      if (unknown > 0) session.err(unknownIssuers(unknown));
    });
}
