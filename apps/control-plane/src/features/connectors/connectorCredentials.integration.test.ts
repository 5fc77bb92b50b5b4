import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { CANARY, KEY_ENCRYPTION_KEY, refusalOf, useConnectorsApi } from '../../../test/connectorsApi.ts';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { createSealer } from '../../sealing/envelope.ts';
import { usableConnectors } from './connectors.service.ts';
import { recordChangedFiles } from './credentialFiles.service.ts';
import { credentialHosts } from './credentialHosts.ts';
import { createCredentials } from './credentials.ts';
import { resealCredentials } from './resealCredentials.service.ts';
import { upstreamHosts } from './upstreamHosts.ts';

const connectors = useConnectorsApi();
const { auditOf, create, revision, uniqueName } = connectors;

describe('a credential', () => {
  it('never appears in a response, the audit log, a log line or, unsealed, in the database', async () => {
    const shown: string[] = [];
    const call: TestApi['call'] = async (...args) => {
      const response = await connectors.api.call(...args);
      shown.push(JSON.stringify(response));
      return response;
    };
    const fields = { provider: 'groq', base_url: connectors.vendorUrl, credential: CANARY };
    const created = await call('POST', '/connectors', { body: { ...fields, name: uniqueName() } });
    const path = `/connectors/${created.body.id}`;
    await call('PATCH', path, { body: { credential: `${CANARY}2` } });
    const tested = await call('POST', `${path}/test`);
    expect(tested.body).toMatchObject({
      ok: false,
      status: 401,
      message: expect.stringContaining('[removed]'),
    });
    await call('GET', path);
    await call('GET', '/connectors');
    // Errors do not repeat it either.
    await call('POST', '/connectors', { body: { ...fields, name: created.body.name } });
    await call('POST', '/connectors', { body: { name: 'a', provider: 'groq', credential: [CANARY] } });
    await call('POST', '/connectors', {
      body: { name: 'a', provider: 'groq', credential: `${CANARY} `.repeat(2) },
    });
    await call('POST', '/connectors', { body: { name: 'a', provider: 'groq', credential_ref: CANARY } });
    await call('PATCH', path, { body: { credential: CANARY, credential_ref: 'env:A' } });
    const malformed = await call('POST', '/connectors', {
      body: `{"name":"a","credential":"${CANARY}"`,
      headers: { 'content-type': 'application/json' },
    });
    expect(malformed.status).toBe(400);
    const { rows } = await sql<{ text: string }>`
      SELECT to_jsonb(connectors)::text AS text FROM connectors UNION ALL
      SELECT to_jsonb(audit_log)::text FROM audit_log`.execute(connectors.api.db);
    const everything = [...shown, connectors.api.log(), ...rows.map(({ text }) => text)].join('\n');
    expect(everything).toContain(created.body.id);
    for (const form of ['utf8', 'hex', 'base64'] as const) {
      const text = Buffer.from(CANARY).toString(form).slice(0, 24);
      expect(everything.toLowerCase().includes(text.toLowerCase()), form).toBe(false);
    }
    // Proxies do receive it.
    const sent = (await connectors.api.snapshot()).connectors.find(({ id }) => id === created.body.id);
    expect(sent).toMatchObject({ credential: `${CANARY}2`, allowPrivateAddress: true });
  });

  it('can only be sealed with a key-encryption key', async () => {
    const without = await startTestApi();
    try {
      const body = { name: 'a', provider: 'groq', credential: CANARY };
      const response = await without.call('POST', '/connectors', { body });
      expect(response.status).toBe(422);
      expect(response.body.error).toMatchObject({
        code: 'key_encryption_key_required',
        message: expect.stringContaining('WEIGHBRIDGE_KEY_ENCRYPTION_KEY'),
      });
      expect(await without.db.selectFrom('connectors').selectAll().where('name', '=', 'a').execute()).toEqual(
        [],
      );
    } finally {
      await without.close();
    }
  });

  it('is not sent to another host unless it is given again', async () => {
    const { id } = await create({ credential: CANARY });
    const patch = (body: Json) => refusalOf(connectors.api.call('PATCH', `/connectors/${id}`, { body }));
    expect(await patch({ base_url: connectors.vendorUrl })).toEqual([
      422,
      'credential_required',
      'credential',
    ]);
    expect((await patch({ base_url: 'https://api.groq.com/openai/v2' }))[0]).toBe(200);
    expect((await patch({ base_url: connectors.vendorUrl, credential: 'sk-another' }))[0]).toBe(200);
  });

  it('is resealed under a new key-encryption key, and cannot be opened without it', async () => {
    const { id } = await create({ credential: CANARY });
    const next = randomBytes(32);
    const depsWith = (current: Buffer | undefined, previous: Buffer[] = []) => ({
      db: connectors.api.db,
      credentials: createCredentials({
        env: {},
        fileDirs: [],
        sealer: createSealer({ current, previous }),
        hosts: credentialHosts(undefined, {}),
      }),
      upstreamHosts: upstreamHosts('127.0.0.1'),
    });
    const credentialWith = async (...keys: Parameters<typeof depsWith>) =>
      (await usableConnectors(depsWith(...keys))).find((connector) => connector.id === id)?.credential;
    const sealed = await connectors.api.db
      .selectFrom('connectors')
      .select('id')
      .where('credential_sealed', 'is not', null)
      .execute();

    expect(await credentialWith(undefined)).toBeUndefined();
    expect(await credentialWith(next)).toBeUndefined();
    expect(await credentialWith(next, [KEY_ENCRYPTION_KEY])).toBe(CANARY);
    // A start with the wrong key loses nothing.
    expect(await resealCredentials(depsWith(next), connectors.api.now)).toEqual({
      resealed: 0,
      unopened: sealed.length,
    });
    expect(await resealCredentials(depsWith(next, [KEY_ENCRYPTION_KEY]), connectors.api.now)).toEqual({
      resealed: sealed.length,
      unopened: 0,
    });
    expect(await resealCredentials(depsWith(next, [KEY_ENCRYPTION_KEY]), connectors.api.now)).toEqual({
      resealed: 0,
      unopened: 0,
    });
    expect(await credentialWith(next)).toBe(CANARY);
    expect(await credentialWith(KEY_ENCRYPTION_KEY)).toBeUndefined();
    const shown = await connectors.api.call('GET', `/connectors/${id}`);
    expect(shown.body).toMatchObject({
      credential_sealed: true,
      usable: false,
      unusable_reason: expect.stringContaining('key-encryption key'),
    });
    await resealCredentials(depsWith(KEY_ENCRYPTION_KEY, [next]), connectors.api.now);
  });

  it('in a file that changed is sent to the proxies once', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'weighbridge-secrets-'));
    const file = join(dir, 'vendor');
    await writeFile(file, 'sk-first');
    const sealer = createSealer({ current: undefined, previous: [] });
    const credentials = createCredentials({
      env: {},
      fileDirs: [dir],
      sealer,
      hosts: credentialHosts(undefined, {}),
    });
    const deps = {
      db: connectors.api.db,
      credentials,
      upstreamHosts: upstreamHosts(''),
      now: () => connectors.api.now,
    };
    const { id } = await create();
    await connectors.api.db
      .updateTable('connectors')
      .set({ credential_ref: `file:${file}` })
      .where('id', '=', id)
      .execute();

    const at = await revision();
    const first = await recordChangedFiles(deps, await recordChangedFiles(deps, undefined));
    expect(await revision()).toBe(at);
    await writeFile(file, 'sk-second');
    const second = await recordChangedFiles(deps, first);
    await recordChangedFiles(deps, second);
    expect(await revision()).toBe(at + 1n);
    expect(await auditOf(id)).toEqual(['connector.created', 'connector.credential_changed']);
    const usable = (await usableConnectors(deps)).find((connector) => connector.id === id);
    expect(usable?.credential).toBe('sk-second');
    await rm(dir, { recursive: true });
  });

  it('that was copied to another row does not open there', async () => {
    const [one, other] = await Promise.all([
      create({ credential: CANARY }),
      create({ credential: 'sk-other' }),
    ]);
    await sql`UPDATE connectors SET credential_sealed = (SELECT credential_sealed FROM connectors WHERE id = ${one.id})
              WHERE id = ${other.id}`.execute(connectors.api.db);
    expect((await connectors.api.call('GET', `/connectors/${other.id}`)).body).toMatchObject({
      usable: false,
    });
  });
});

describe('a referenced credential', () => {
  const elsewhere = 'https://evil.example/v1';
  const refusal = [422, 'credential_host_not_allowed', 'credential_ref'];

  it('is bound to hosts on creation and change, and is not read for a connector that breaks the rule', async () => {
    const api = await startTestApi({
      CREDENTIAL_REF_HOSTS: 'env:TEAM_KEY=api.groq.com',
      TEAM_KEY: 'sk-team',
      OTHER_KEY: 'sk-other',
      OPENAI_API_KEY: 'sk-openai',
    });
    try {
      const post = (fields: Json) =>
        api.call('POST', '/connectors', { body: { provider: 'groq', ...fields } });
      const refused = { name: 'a', credential_ref: 'env:TEAM_KEY', base_url: elsewhere };
      expect(await refusalOf(post(refused))).toEqual(refusal);
      expect(await refusalOf(post({ name: 'a', credential_ref: 'env:OTHER_KEY' }))).toEqual(refusal);
      expect(
        await refusalOf(post({ name: 'a', credential_ref: 'env:OPENAI_API_KEY', base_url: elsewhere })),
      ).toEqual(refusal);

      const made = (await post({ name: 'a', credential_ref: 'env:TEAM_KEY' })).body;
      expect(made).toMatchObject({
        usable: true,
        credential_bound: true,
        credential_hosts: ['api.groq.com'],
      });
      const path = `/connectors/${made.id}`;
      const patch = (body: Json) => api.call('PATCH', path, { body });
      expect(await refusalOf(patch({ base_url: elsewhere }))).toEqual(refusal);
      expect(await refusalOf(patch({ credential_ref: 'env:OTHER_KEY' }))).toEqual(refusal);

      const keyless = (await post({ name: 'b', base_url: elsewhere })).body;
      expect(keyless.credential_bound).toBeNull();
      const body = { credential_ref: 'env:TEAM_KEY' };
      expect(await refusalOf(api.call('PATCH', `/connectors/${keyless.id}`, { body }))).toEqual(refusal);
      // Both at once.
      expect((await patch({ base_url: elsewhere, credential_ref: null })).status).toBe(200);
      expect((await patch({ base_url: 'https://api.groq.com/v2', ...body })).status).toBe(200);

      // Made under other settings, or written to the database.
      await sql`UPDATE connectors SET base_url = ${elsewhere} WHERE id = ${String(made.id)}`.execute(api.db);
      const moved = (await api.call('GET', path)).body;
      expect(moved).toMatchObject({
        usable: false,
        unusable_reason: expect.stringMatching(/env:TEAM_KEY go to evil\.example .*CREDENTIAL_REF_HOSTS/),
      });
      const tested = (await api.call('POST', `${path}/test`)).body;
      expect(tested).toMatchObject({ ok: false, status: null, message: moved.unusable_reason });
      // It can still be renamed, disabled and mended.
      expect((await patch({ enabled: false })).status).toBe(200);
      expect((await patch({ base_url: 'https://api.groq.com/v1' })).body.usable).toBe(true);
      // A connector of the environment goes where the deployment sent it.
      const { data } = (await api.call('GET', '/connectors?name_contains=env-openai')).body as {
        data: Json[];
      };
      const credential_hosts = ['api.openai.com'];
      expect(data).toMatchObject([{ usable: true, credential_bound: true, credential_hosts }]);
    } finally {
      await api.close();
    }
  });

  it('goes anywhere while the deployment lists none', async () => {
    const made = await create({ credential_ref: 'env:VENDOR_KEY', base_url: 'https://any.example/v1' });
    expect(made).toMatchObject({ usable: true, credential_bound: false, credential_hosts: null });
    const body = {
      name: uniqueName(),
      provider: 'openai',
      credential_ref: 'env:OPENAI_API_KEY',
      base_url: elsewhere,
    };
    expect(await refusalOf(connectors.api.call('POST', '/connectors', { body }))).toEqual(refusal);
  });
});
