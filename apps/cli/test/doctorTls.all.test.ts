import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTestDatabase, freePort, type TestDatabase } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Issued, issue, tlsFiles } from './certificates.ts';
import { diagnose } from './doctor.ts';
import { type RunningProcess, startApp } from './processes.ts';

const DAY_MS = 86_400_000;
const inDays = (days: number) => new Date(Date.now() + days * DAY_MS);
const TOKEN = 'a token that the apps share';

let folder: string;
let authority: Issued;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
  authority = await issue({ name: 'authority', isAuthority: true, to: inDays(300) });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('weighbridge doctor: certificates', () => {
  const issued = (options: Parameters<typeof issue>[0] = {}) => issue({ issuer: authority, ...options });
  const files = (own: Issued, trusted = [authority.cert]) => tlsFiles(folder, 'own', own, trusted);

  it('finds no problem', async () => {
    const { code, findings } = await diagnose(await files(await issued()));
    expect(
      findings.filter(({ level }) => level !== 'skipped').map(({ check, level }) => [check, level]),
    ).toEqual([
      ['certificate', 'ok'],
      ['chain', 'ok'],
      ['authority', 'ok'],
    ]);
    expect(code).toBe(0);
  });

  it('reports a certificate that has expired, expires soon or is not valid yet', async () => {
    const ended = await diagnose(await files(await issued({ from: inDays(-9), to: inDays(-2) })));
    expect([ended.code, ended.levels('certificate')]).toEqual([1, ['fail']]);
    expect(ended.said('certificate')).toMatch(/"CN=weighbridge" expired on \d{4}-\d\d-\d\d.*Renew it/);
    const soon = await diagnose(await files(await issued({ to: inDays(5.5) })));
    expect([soon.code, soon.levels('certificate'), soon.said('certificate')]).toEqual([
      0,
      ['warn'],
      expect.stringContaining('expires in 5 days'),
    ]);
    const later = await diagnose(await files(await issued({ from: inDays(2), to: inDays(30) })));
    expect([later.levels('certificate'), later.said('certificate')]).toEqual([
      ['fail'],
      expect.stringContaining('is not valid before'),
    ]);
  });

  it('reports an authority that expires soon', async () => {
    const ending = await issue({ name: 'ending', isAuthority: true, to: inDays(3.5) });
    const { levels, said } = await diagnose(await files(await issued({ issuer: ending }), [ending.cert]));
    expect([levels('authority'), said('authority')]).toEqual([
      ['warn'],
      expect.stringContaining('expires in 3 days'),
    ]);
  });

  it('reports a certificate, key and chain that do not belong together', async () => {
    const own = await issued();
    const mixed = await diagnose(await files({ ...own, key: (await issued()).key }));
    expect([mixed.code, mixed.said('certificate')]).toEqual([1, expect.stringContaining('does not match')]);

    const stranger = await issue({ name: 'stranger', isAuthority: true });
    const untrusted = await diagnose(await files(own, [stranger.cert]));
    expect([untrusted.code, untrusted.levels('chain')]).toEqual([0, ['warn']]);
    const broken = await diagnose(await files({ ...own, cert: `${own.cert}\n${stranger.cert}` }));
    expect([broken.code, broken.levels('chain'), broken.said('chain')]).toEqual([
      1,
      ['fail'],
      expect.stringContaining('was not issued by "CN=stranger"'),
    ]);
    const between = await issue({ name: 'between', isAuthority: true, issuer: authority });
    const leaf = await issued({ issuer: between });
    const whole = await diagnose(await files({ ...leaf, cert: `${leaf.cert}\n${between.cert}` }));
    expect([whole.code, whole.levels('chain')]).toEqual([0, ['ok']]);
  });

  it('reports missing and invalid files', async () => {
    const settings = await files(await issued());
    const { CONTROL_TLS_CA_FILE: _, ...two } = settings;
    expect((await diagnose(two)).said('certificates')).toContain('CONTROL_TLS_CA_FILE is missing');
    await rm(settings.CONTROL_TLS_KEY_FILE);
    await writeFile(settings.CONTROL_TLS_CA_FILE, 'nothing');
    const { code, levels, said } = await diagnose(settings);
    expect([code, levels('certificate')]).toEqual([1, ['fail', 'fail']]);
    expect(said('certificate')).toMatch(
      /own\.key can't be read: ENOENT[\s\S]*own\.ca contains no certificate/,
    );
  });
});

describe('weighbridge doctor: connection to a control plane', () => {
  let database: TestDatabase;
  const running: RunningProcess[] = [];
  let address: string;
  let port: number;
  let api: number;
  let metrics: number;
  let own: Issued;

  beforeAll(async () => {
    database = await createTestDatabase();
    const served = await issue({ ip: '127.0.0.1', issuer: authority, to: inDays(4.5) });
    own = await issue({ name: 'data-plane', issuer: authority });
    port = await freePort();
    api = await freePort();
    metrics = await freePort();
    address = `127.0.0.1:${port}`;
    running.push(
      await startApp(
        'control-plane',
        {
          DATABASE_URL: database.url,
          PORT: String(api),
          METRICS_PORT: String(metrics),
          GRPC_PORT: String(port),
          CONTROL_PLANE_TOKEN: TOKEN,
          OPERATOR_KEY_FILE: join(folder, 'operator-key'),
          MOCK_VENDOR_URL: 'http://127.0.0.1:1/v1',
          ...(await tlsFiles(folder, 'control-plane', served, [authority.cert])),
        },
        /is ready/,
      ),
    );
  });
  afterAll(async () => {
    await Promise.all(running.map((process) => process.stop()));
    await database.drop();
  });

  const settings = async (trusted = authority.cert, identity = own) => ({
    CONTROL_PLANE_ADDRESS: address,
    CONTROL_PLANE_TOKEN: TOKEN,
    ...(await tlsFiles(folder, 'data-plane', identity, [trusted])),
  });

  it('finds no problem, and checks the served certificate', async () => {
    const { code, levels, said } = await diagnose(await settings());
    expect([code, levels('control plane')]).toEqual([0, ['warn', 'ok']]);
    expect(said("control plane's certificate")).toContain('expires in 4 days');
    expect(said('control plane')).toContain(`${address} accepts these settings`);
  });

  it('the control plane reports in its metrics when its certificate expires', async () => {
    const text = await (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text();
    const endsAt = Number(text.match(/^weighbridge_certificate_expires_timestamp_seconds (\S+)$/m)?.[1]);
    expect(Math.abs(endsAt - inDays(4.5).getTime() / 1_000)).toBeLessThan(600);
  });

  it('reports an unreachable control plane', async () => {
    const nowhere = { ...(await settings()), CONTROL_PLANE_ADDRESS: `127.0.0.1:${await freePort()}` };
    const { code, levels, said } = await diagnose(nowhere);
    expect([code, levels('control plane')]).toEqual([1, ['fail']]);
    expect(said('control plane')).toMatch(/ECONNREFUSED[\s\S]*CONTROL_PLANE_ADDRESS is the host/);
  });

  it('reports the TLS error of a certificate', async () => {
    const weak = await issue({ issuer: authority, algorithm: 'sha1' });
    const { code, said } = await diagnose(await settings(authority.cert, weak));
    expect([code, said('control plane')]).toEqual([1, expect.stringContaining('md too weak')]);
  });

  it('reports a refused token', async () => {
    const { code, levels, said } = await diagnose({
      ...(await settings()),
      CONTROL_PLANE_TOKEN: 'another token than theirs',
    });
    expect([code, levels('control plane')]).toEqual([1, ['warn', 'fail']]);
    expect(said('control plane')).toContain('Set CONTROL_PLANE_TOKEN to the same value');
    expect(said('control plane')).not.toContain('another token');
  });

  it('reports a certificate that is not trusted, on either side', async () => {
    const stranger = await issue({ name: 'stranger', isAuthority: true });
    const theirs = await diagnose(await settings(stranger.cert));
    expect([theirs.code, theirs.levels('control plane')]).toEqual([1, ['warn', 'fail', 'fail']]);
    expect(theirs.said("control plane's certificate")).toContain('not trusted by CONTROL_TLS_CA_FILE');
    const ours = await diagnose(await settings(authority.cert, stranger));
    expect([ours.code, ours.levels('control plane').at(-1)]).toEqual([1, 'fail']);
    expect(ours.said('control plane')).toContain('trusts the issuer of CONTROL_TLS_CERTIFICATE_FILE');
  });

  it('reports a certificate for another name', async () => {
    const { code, said } = await diagnose({
      ...(await settings()),
      CONTROL_PLANE_ADDRESS: `localhost:${port}`,
    });
    expect([code, said("control plane's certificate")]).toEqual([
      1,
      expect.stringMatching(/it is not for localhost \(IP Address:127\.0\.0\.1\)/),
    ]);
  });

  it('reports a control plane to which no proxy has connected', async () => {
    const WEIGHBRIDGE_KEY = (await readFile(join(folder, 'operator-key'), 'utf8')).trim();
    const { code, levels, said } = await diagnose(
      { WEIGHBRIDGE_URL: `http://127.0.0.1:${api}`, WEIGHBRIDGE_KEY },
      { args: ['--live'] },
    );
    expect([code, levels('proxies'), said('proxies')]).toEqual([
      1,
      ['fail'],
      expect.stringContaining('no proxy has connected'),
    ]);
    expect([levels('connector env-mock'), said('connector env-mock')]).toEqual([
      ['fail'],
      expect.stringContaining('could not be reached (ECONNREFUSED)'),
    ]);
  });
});
