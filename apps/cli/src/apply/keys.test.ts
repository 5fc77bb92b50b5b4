import {
  chmod,
  chown,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keyHint } from '@weighbridge/domain';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { EMPTY_STATE } from '../../test/emptyState.ts';
import { fakePlans } from '../../test/fakePlans.ts';
import { makeChanges } from './applyPlan.ts';
import type { ApplyFile, Json } from './desiredState.ts';
import { keyNotes, readRevoked, readSecretFiles } from './keyChanges.ts';
import { plan } from './plan.ts';
import { writeSecret } from './secretFiles.ts';
import { showPlan } from './showPlan.ts';

const secretOf = (n: number) => `sk-svc-${String(n).padStart(49, '0')}`;
const OTHER = `sk-svc-${'x'.repeat(49)}`;
const POLICY = { id: 'pol_1', name: 'team' };

let folder: string;
/** The service's keys, and the secret of each. */
let keys: Json[];
let revoked: Json[];
let secrets: Map<unknown, string>;
let issued: number;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-keys-'));
  keys = [];
  revoked = [];
  secrets = new Map();
  issued = 0;
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const newSecret = (key: Json): Json => {
  const secret = secretOf(++issued);
  secrets.set(key.id, secret);
  key.key_hint = keyHint(secret);
  return { ...key, key: secret };
};
const call = async (method: string, path: string, body?: unknown): Promise<Json> => {
  const [, , , , id, verb] = path.split('/');
  const key = keys.find((one) => one.id === id);
  if (method === 'POST' && !id) {
    const times = { created_at: '1', updated_at: '1', last_used_at: null };
    keys.push({ id: `key_${keys.length}`, attribution: {}, ...(body as Json), ...times });
    return newSecret(keys.at(-1) as Json);
  }
  if (!key) throw new Error(`no ${path}`);
  key.updated_at = '2';
  if (method === 'DELETE') {
    keys = keys.filter((one) => one !== key);
    revoked.push(key);
  }
  if (verb === 'rotate') return newSecret(key);
  if (body) Object.assign(key, body);
  return key;
};

const at = (name = 'app.key') => join(folder, name);
const key = (more: Json = {}): Json => ({
  name: 'app',
  policy: 'team',
  scopes: ['inference'],
  secret_file: at(),
  ...more,
});

/** Applies files with these keys: what it would print. */
async function apply(
  desired: readonly Json[],
  { rotate = [] as string[], prune = false, deliver = writeSecret } = {},
) {
  const resources = desired.map((fields, n) => ({ fields, line: n + 1, file: 'keys.yaml' }));
  const { prices: _, ...none } = EMPTY_STATE;
  const file = { ...none, keys: resources } as unknown as ApplyFile;
  const current = { ...EMPTY_STATE, policies: [POLICY], keys: keys.map((one) => ({ ...one })) };
  const ofOwner = { owner: 'apply', held: await readSecretFiles(file) };
  const hints = await readRevoked(
    async () => ({ data: revoked, next_page_token: '' }),
    file,
    current,
    ofOwner,
  );
  const options = { ...ofOwner, revoked: hints, rotate, graceSeconds: 60 };
  const changes = plan(file, current, prune ? ['keys'] : [], undefined, [], options);
  const notes = keyNotes(file, current, options);
  await makeChanges(fakePlans(call), changes, (secret, { target, replaces }) =>
    deliver(target, secret, replaces),
  );
  return [showPlan(changes), ...notes].join('\n').trim();
}

const content = (name?: string) => readFile(at(name), 'utf8');
const killed = async () => {
  throw new Error('killed');
};

describe('a key of a file', () => {
  it('is issued into its secret file, which only its owner can read, and is shown nowhere else', async () => {
    const shown = await apply([key()]);
    expect(shown).toMatch(/^\+ keys app\n/);
    expect(shown).not.toContain(secretOf(1));
    expect(await content()).toBe(`${secretOf(1)}\n`);
    expect((await stat(at())).mode & 0o777).toBe(0o600);
    expect(keys).toMatchObject([{ policy_id: 'pol_1', disabled: false, managed_by: 'apply' }]);
    expect(await readdir(folder)).toEqual(['app.key']);
    expect(await apply([key()])).toBe('');
  });

  it('is issued into a manifest of a Secret, in a folder that is made', async () => {
    const manifest = {
      secret_file: at('new/app.yaml'),
      kubernetes_secret: { name: 'app', namespace: 'web', key: 'K' },
    };
    await apply([key(manifest)]);
    expect(parse(await content('new/app.yaml'))).toEqual({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'app', namespace: 'web' },
      type: 'Opaque',
      stringData: { K: secretOf(1) },
    });
    expect((await stat(at('new'))).mode & 0o777).toBe(0o700);
    expect(await apply([key(manifest)])).toBe('');
    expect(await apply([key(manifest)], { rotate: ['app'] })).toContain('secret: ');
    expect(await content('new/app.yaml')).toContain(secretOf(2));
  });

  it('whose run ended before its secret was written is never enabled, and is replaced by the next run', async () => {
    await expect(apply([key()], { deliver: killed })).rejects.toThrow('killed');
    expect(keys).toMatchObject([{ id: 'key_0', disabled: true }]);
    await apply([key()]);
    expect(await content()).toBe(`${secretOf(2)}\n`);
    expect(keys).toMatchObject([{ disabled: false, key_hint: keyHint(secretOf(2)) }]);
  });

  it('whose run ended after its secret was written is enabled by the next run', async () => {
    await apply([key()]);
    Object.assign(keys[0] as Json, { disabled: true, updated_at: '1' });
    expect(await apply([key()])).toContain('disabled: true → false');
    expect([await content(), keys]).toMatchObject([`${secretOf(1)}\n`, [{ disabled: false }]]);
  });

  it('keeps its secret where the file is missing; --rotate writes another', async () => {
    await apply([key()]);
    await rm(at());
    expect(await apply([key()])).toBe(
      `keys app: ${at()} is not here. A secret is issued once: --rotate app issues another.`,
    );
    await apply([key()], { rotate: ['app'] });
    expect(await content()).toBe(`${secretOf(2)}\n`);
    await apply([key()], { rotate: ['app'] });
    expect([await content(), keys.length]).toEqual([`${secretOf(3)}\n`, 1]);
  });

  it('is issued again if it was revoked, and replaces its secret', async () => {
    await apply([key()]);
    revoked.push(...keys.splice(0));
    expect(await apply([key()])).toMatch(/^\+ keys app\n/);
    expect(await content()).toBe(`${secretOf(2)}\n`);
  });

  it('that an operator disabled stays disabled', async () => {
    await apply([key()]);
    Object.assign(keys[0] as Json, { disabled: true, updated_at: '3' });
    expect(await apply([key()])).toBe('');
    expect(keys).toMatchObject([{ disabled: true }]);
  });

  it('changes its policy, expiry and attribution, not its scopes', async () => {
    await apply([key({ expires_at: '2030-01-01T00:00:00Z' })]);
    expect(await apply([key({ expires_at: '2030-01-01T00:00:00.000Z' })])).toBe('');
    expect(await apply([key({ expires_at: null, attribution: { env: 'x' } })])).toContain('attribution');
    expect(keys).toMatchObject([{ expires_at: null, attribution: { env: 'x' } }]);
    await expect(apply([key({ scopes: ['inference', 'keys:write'] })])).rejects.toThrow(
      "scopes of a key can't",
    );
  });

  it('is revoked by a pruning, if the files do not name it', async () => {
    await apply([key(), key({ name: 'other', secret_file: at('other.key') })]);
    expect(await apply([key()], { prune: true })).toBe('- keys other');
    expect(keys).toMatchObject([{ name: 'app' }]);
  });
});

describe('a secret is not written', () => {
  const cases: [why: string, prepare: () => Promise<unknown>, says: RegExp][] = [
    ['over a file of someone else', () => writeFile(at(), 'theirs'), /move it away/],
    ["over another key's secret", () => writeFile(at(), OTHER), /move it away/],
    ['through a link', () => symlink(at('elsewhere'), at()), /is a link/],
    [
      'into a file with two names',
      async () => {
        await writeFile(at('one'), OTHER);
        await link(at('one'), at());
      },
      /is a link/,
    ],
    ['where a folder is', () => mkdir(at()), /not a file/],
    ['into a folder that everyone can write to', () => chmod(folder, 0o777), /everyone can write/],
    ['into a folder that can not be written to', () => chmod(folder, 0o500), /can't be written to/],
    [
      'into a linked folder',
      async () => {
        await rm(folder, { recursive: true });
        await mkdir(`${folder}-real`);
        await symlink(`${folder}-real`, folder);
      },
      /is a link/,
    ],
  ];
  it.each(cases)('%s', async (_why, prepare, says) => {
    await prepare();
    await expect(apply([key()])).rejects.toThrow(says);
    expect([keys, issued]).toEqual([[], 0]);
    await rm(`${folder}-real`, { recursive: true, force: true });
  });

  it('into one file for two keys, or nowhere', async () => {
    await expect(apply([key(), key({ name: 'other' })])).rejects.toThrow('the key app has the same file');
    await expect(apply([key({ secret_file: undefined })])).rejects.toThrow('give the file');
    expect(issued).toBe(0);
  });

  it('outside of the folder, unless its whole path is given, nor where others have theirs', async () => {
    for (const secret_file of ['../app.key', 'secrets/../../app.key', '..', './../app.key', 'a\0b'])
      await expect(apply([key({ secret_file })])).rejects.toThrow(/leads out of|no path can have/);
    // Files of root; as root, a file of someone else.
    if (process.geteuid?.() === 0) {
      await writeFile(at('theirs'), '');
      await chown(at('theirs'), 65_534, 65_534);
    }
    const theirs = process.geteuid?.() === 0 ? at('theirs') : '/etc/passwd';
    await expect(apply([key({ secret_file: theirs })])).rejects.toThrow('belongs to another user');
    expect([keys, issued]).toEqual([[], 0]);
  });

  it('over a file that appeared after the plan', async () => {
    const late = apply([key()], {
      deliver: async (...args) => {
        await writeFile(at(), 'theirs');
        await writeSecret(...args);
      },
    });
    await expect(late).rejects.toThrow('is not replaced');
    expect([await content(), keys]).toMatchObject(['theirs', [{ disabled: true }]]);
  });
});
