import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSealer } from '../../sealing/envelope.ts';
import { credentialHosts } from './credentialHosts.ts';
import { type Credentials, createCredentials } from './credentials.ts';

let root: string;
let dir: string;
let credentials: Credentials;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'weighbridge-credentials-'));
  dir = join(root, 'secrets');
  await mkdir(join(dir, '..data'), { recursive: true });
  await writeFile(join(dir, '..data', 'vendor'), 'sk-from-file\n');
  await symlink(join('..data', 'vendor'), join(dir, 'vendor'));
  await writeFile(join(root, 'outside'), 'sk-outside');
  await symlink(join(root, 'outside'), join(dir, 'escape'));
  await writeFile(join(dir, 'large'), 'x'.repeat(100_000));
  await writeFile(join(dir, 'lines'), 'one\ntwo');
  credentials = createCredentials({
    env: {
      VENDOR_KEY: 'sk-from-env',
      EMPTY: '',
      DATABASE_URL: 'postgres://secret',
      WEIGHBRIDGE_PEPPER: 'secret',
    },
    fileDirs: [dir],
    sealer: createSealer({ current: undefined, previous: [] }),
    hosts: credentialHosts(undefined, {}),
  });
});
afterAll(() => rm(root, { recursive: true }));

describe('a reference to a credential', () => {
  it('names an environment variable or a file', async () => {
    expect(await credentials.read('env:VENDOR_KEY')).toEqual({ value: 'sk-from-env' });
    expect(await credentials.read(`file:${dir}/vendor`)).toEqual({ value: 'sk-from-file' });
  });

  it.each([
    'env:NOT_THERE',
    'env:EMPTY',
    'file:DIR/not-there',
    'file:DIR/..data',
    'file:DIR/escape',
    'file:DIR/large',
    'file:DIR/lines',
  ])('without a credential says so, without showing what is there: %s', async (ref) => {
    const credential = await credentials.read(ref.replace('DIR', dir));
    expect(credential).toEqual({ unusable: expect.any(String) });
    expect(JSON.stringify(credential)).not.toMatch(/sk-|xxx|two/);
  });

  it.each([
    'sk-plain-secret',
    'env:',
    'env:A B',
    'file:relative',
    'file:/etc/passwd',
    'file:DIR/../outside',
    'env:DATABASE_URL',
    'env:WEIGHBRIDGE_PEPPER',
    'env:STATE_KEY',
    'env:RESPONSE_CACHE_KEY',
  ])(
    'that could never be one, or would tell the secrets of the service itself, is refused: %s',
    async (ref) => {
      const full = ref.replace('DIR', dir);
      expect(() => credentials.assertValidRef(full)).toThrow(/credential_ref cannot be used/);
      expect(await credentials.read(full)).toEqual({ unusable: expect.any(String) });
    },
  );
});
