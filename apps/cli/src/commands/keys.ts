import type { components } from '@weighbridge/client';
import {
  createKey,
  createPlaygroundKey,
  getKey,
  listKeys,
  revokeKey,
  rotateKey,
  updateKey,
} from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import type { Flags } from '../resources/flags.ts';
import { showSecret } from '../resources/secrets.ts';
import { type Column, time } from '../session/output.ts';
import type { Cli, Session } from '../session/session.ts';
import { BY_NAME } from './teams.ts';

type Key = components['schemas']['Key'];
type IssuedKey = components['schemas']['IssuedKey'];

const FLAGS: Flags<'expires_at' | 'attribution'> = {
  expires_at: { flag: 'expires <time>', text: 'a date-time, or a duration such as 30d, or never' },
  'attribution.user': { flag: 'attribution-user <user>' },
  'attribution.team': { flag: 'attribution-team <team>' },
  'attribution.project': { flag: 'attribution-project <project>' },
  'attribution.env': { flag: 'attribution-env <env>' },
  'attribution.labels': {
    flag: 'attribution-labels <json>',
    text: 'the labels that its requests are attributed to, such as {"tier":"gold"}',
  },
};

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

function showKey(session: Session, issued: IssuedKey): void {
  showSecret(session, issued, `, governed by ${issued.policy_id}`, issued.key);
}

export function keysCommand(cli: Cli): Command {
  const keys = new Command('keys').description('issue and manage keys');
  addCreate(keys.command('create <name>'), cli);
  addCall(keys.command('playground'), cli, createPlaygroundKey, {
    description:
      'issue a key of your own that infers for 15 minutes; only its secret goes to standard output',
    show: showKey,
  });
  addList(keys.command('list'), cli, listKeys, {
    description: 'list keys, newest first',
    query: {
      policy_id: { text: 'only keys that this policy governs' },
      team_id: { ...BY_NAME, text: 'only keys of members of this team, by id or name' },
      expiring_before: {
        text: 'only keys that expire before this date-time, or duration such as 30d',
      },
    },
    examples: ['weighbridge keys list --expiring-before 7d'],
    columns: COLUMNS,
  });
  addCall(keys.command('show <key_id>'), cli, getKey, { description: 'show a key, without its secret' });
  addUpdate(keys.command('update <key_id>'), cli);
  addCall(keys.command('disable <key_id>'), cli, updateKey, {
    description: 'refuse a key until it is enabled again',
    body: { disabled: true },
  });
  addCall(keys.command('enable <key_id>'), cli, updateKey, {
    description: 'accept a disabled key again',
    body: { disabled: false },
  });
  addRotate(keys.command('rotate <key_id>'), cli);
  addRevoke(keys.command('revoke <key_id>'), cli);
  return keys;
}

function addCreate(command: Command, cli: Cli): void {
  addCall(command, cli, createKey, {
    description: 'issue a key; only its secret goes to standard output',
    flags: {
      ...FLAGS,
      disabled: { text: 'issue it disabled', no: 'issue it enabled' },
      scopes: { text: 'a scope; may be repeated, or given with commas' },
      // Only `apply` issues keys for files.
      managed_by: null,
    },
    examples: [
      'KEY=$(weighbridge keys create "my app" --scope inference)',
      'weighbridge keys create ci --scope keys:read,usage:read --expires 90d --json',
    ],
    skipsEmpty: true,
    show: showKey,
  });
}

function addUpdate(command: Command, cli: Cli): void {
  addCall(command, cli, updateKey, {
    description: 'change the given fields of a key',
    flags: {
      ...FLAGS,
      disabled: { text: 'refuse it until it is enabled again', no: 'accept it again' },
      policy_id: { text: "the policy that governs it, or none for its principal's or the default" },
    },
    examples: ['weighbridge keys update key_… --name checkout --expires 90d'],
  });
}

function addRotate(command: Command, cli: Cli): void {
  addCall(command, cli, rotateKey, {
    description: 'replace the secret of a key; its id, policy and spend stay',
    flags: {
      grace_seconds: { text: 'how long the old secret can still read and infer, such as 1h', default: 0 },
    },
    examples: ['KEY=$(weighbridge keys rotate key_… --grace 1h)'],
    show: (session, issued, { grace }) => {
      showKey(session, issued);
      const seconds = Number(grace);
      const endsAt = new Date(cli.now().getTime() + seconds * 1_000);
      if (seconds > 0) session.err(`The old secret can read and infer until ${time(endsAt.toISOString())}.`);
    },
  });
}

function unknownIssuers(count: number): string {
  return `${count} keys in use may descend from it too: an earlier release issued them and recorded no issuer. List them with \`weighbridge keys list\` and revoke those that you don't know.`;
}

function addRevoke(command: Command, cli: Cli): void {
  addCall(command, cli, revokeKey, {
    description: 'revoke a key for good; its spend stays on record',
    query: { descendants: { text: 'also the keys that were issued with it, with those, and so on' } },
    examples: ['weighbridge keys revoke key_… --descendants'],
    show: (session, revoked) => {
      session.showOne(revoked);
      const { unknown_issuer: unknown = 0 } = revoked.descendants ?? {};
      if (unknown > 0) session.err(unknownIssuers(unknown));
    },
  });
}
