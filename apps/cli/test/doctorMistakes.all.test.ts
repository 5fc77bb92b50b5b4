import { execFile } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createEmptyDatabase, eventually, freePort, startNats, testRun } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Finding } from '../src/doctor/finding.ts';
import { issue, tlsFiles } from './certificates.ts';
import { ahead, type Diagnosis, diagnose } from './doctor.ts';
import { type Cluster, startCluster } from './faults/cluster.ts';
import { manage } from './mainJob.ts';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));

type Settings = Record<string, string>;
/** What is mended again at the end of a test. */
type Mends = (mend: () => Promise<unknown>) => void;

interface Mistake {
  /** Whoever makes it has this wrong; all else is right. */
  readonly mistake: string;
  /** Makes it; returns the settings that change. */
  make(cluster: Cluster, mends: Mends): Settings | Promise<Settings>;
  readonly args?: readonly string[];
  readonly now?: () => Date;
  readonly level?: 'warn' | 'fail';
  /** The check that finds it, and what that says: what is wrong, then what to do. */
  readonly check: string;
  readonly said: RegExp;
}

const TOKEN = 'the token of this cluster, and of no other';
const STREAM_BYTES = 64 * 1_048_576;

let cluster: Cluster;
let right: Settings;

beforeAll(async () => {
  const shared = { CONTROL_PLANE_TOKEN: TOKEN };
  const stream = { NATS_STREAM_MAX_BYTES: String(STREAM_BYTES) };
  cluster = await startCluster({
    env: {
      controlPlane: { ...shared, ALLOWED_UPSTREAM_HOSTS: '127.0.0.1', MISTAKEN_KEY: 'sk-x' },
      dataPlane: { ...shared, ...stream },
      metering: stream,
    },
  });
  const [proxy] = cluster.proxies;
  if (!proxy) throw new Error('a cluster has a proxy');
  right = {
    ...shared,
    ...stream,
    WEIGHBRIDGE_URL: cluster.managementUrl,
    WEIGHBRIDGE_KEY: cluster.operatorKey,
    DATABASE_URL: cluster.databaseUrl,
    NATS_URL: cluster.nats.urls['data-plane'],
    CONTROL_PLANE_ADDRESS: cluster.controlPlaneAddress,
    SPOOL_DIR: cluster.spoolDir(proxy),
    SPOOL_MAX_BYTES: '1048576',
  };
});
afterAll(() => cluster?.close());

const changed = (url: string, change: (changed: URL) => void): string => {
  const copy = new URL(url);
  change(copy);
  return copy.href;
};

/** Like a pooler, it gives clients its own process ids. */
async function startPooler(target: string): Promise<{ url: string; close(): Promise<unknown> }> {
  const { hostname, port } = new URL(target);
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    near.on('error', () => far.destroy()).pipe(far);
    far.on('error', () => near.destroy());
    far.on('close', () => near.destroy());
    far.on('data', (bytes: Buffer) => {
      // BackendKeyData (https://www.postgresql.org/docs/current/protocol-message-formats.html), from a server that is local.
      const at = bytes.indexOf(Buffer.from([0x4b, 0, 0, 0, 12]));
      if (at >= 0) bytes.writeInt32BE(bytes.readInt32BE(at + 5) ^ 0x10000, at + 5);
      near.write(bytes);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const pooled = changed(target, (url) => {
    url.hostname = '127.0.0.1';
    url.port = String((server.address() as AddressInfo).port);
  });
  return { url: pooled, close: () => new Promise((resolve) => server.close(resolve)) };
}

/** A connector for the length of a test; disabled at its end, since rows may name it. */
async function connector({ vendor, ...service }: Cluster, mends: Mends, change: object): Promise<Settings> {
  const body = {
    name: `mistake-${Date.now()}`,
    provider: 'openai',
    base_url: vendor.url,
    credential_ref: 'env:MISTAKEN_KEY',
  };
  const created = await manage(service, 'POST', '/api/v1/connectors', { body: { ...body, ...change } });
  expect(created.status, JSON.stringify(created.body)).toBe(201);
  mends(() => manage(service, 'DELETE', `/api/v1/connectors/${created.body.id}`));
  return {};
}

const MISTAKES: readonly Mistake[] = [
  {
    mistake: 'the service is at another port',
    make: () => ({ WEIGHBRIDGE_URL: 'http://127.0.0.1:1' }),
    check: 'service',
    said: /is unreachable.*give its address by --url/,
  },
  {
    mistake: 'the address of a data plane, not of the control plane',
    make: ({ inferenceUrl }) => ({ WEIGHBRIDGE_URL: inferenceUrl }),
    check: 'service',
    said: /it is a data plane or metering.*address of the control plane/,
  },
  {
    mistake: 'the address with the path of the API',
    make: ({ managementUrl }) => ({ WEIGHBRIDGE_URL: `${managementUrl}/api/v1` }),
    check: 'service',
    said: /Weighbridge.*address/,
  },
  {
    mistake: "a vendor's key",
    make: () => ({ WEIGHBRIDGE_KEY: 'sk-proj-0123456789abcdef' }),
    check: 'key',
    said: /WEIGHBRIDGE_KEY.*Give another key/,
  },
  {
    mistake: 'a key that was rotated away or deleted',
    make: () => ({ WEIGHBRIDGE_KEY: `sk-svc-${'0'.repeat(32)}` }),
    check: 'key',
    said: /Give another key by WEIGHBRIDGE_KEY/,
  },
  {
    mistake: 'a wrong password of the database',
    make: () => ({ DATABASE_URL: changed(right.DATABASE_URL ?? '', (url) => (url.password = 'wrong')) }),
    check: 'database',
    said: /password authentication failed.*Correct DATABASE_URL/,
  },
  {
    mistake: 'a database that does not exist',
    make: () => ({ DATABASE_URL: changed(right.DATABASE_URL ?? '', (url) => (url.pathname = '/nowhere')) }),
    check: 'database',
    said: /database "nowhere" does not exist.*Correct DATABASE_URL/,
  },
  {
    mistake: 'a database that was never migrated',
    async make(_cluster, mends) {
      const empty = await createEmptyDatabase();
      mends(() => empty.drop());
      return { DATABASE_URL: empty.url };
    },
    check: 'schema',
    said: /lacks the migration.*Run `weighbridge migrate`/,
  },
  {
    mistake: 'a standby of the database',
    make: () => ({
      DATABASE_URL: changed(right.DATABASE_URL ?? '', (url) =>
        url.searchParams.set('options', '-c default_transaction_read_only=on'),
      ),
    }),
    check: 'database',
    said: /accepts no writes.*Point DATABASE_URL to the primary/,
  },
  {
    mistake: 'a pooler between the apps and the database',
    async make(_cluster, mends) {
      const pooler = await startPooler(right.DATABASE_URL ?? '');
      mends(() => pooler.close());
      return { DATABASE_URL: pooler.url };
    },
    level: 'warn',
    check: 'connection',
    said: /a pooler answers.*pool_mode = session/,
  },
  {
    mistake: 'a user of the database without rights',
    async make({ db }, mends) {
      const role = `mistake_${process.pid}_${Date.now()}`;
      await sql.raw(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`).execute(db);
      mends(() => sql.raw(`DROP ROLE ${role}`).execute(db));
      const user = (url: URL) => Object.assign(url, { username: role, password: 'secret' });
      return { DATABASE_URL: changed(right.DATABASE_URL ?? '', user) };
    },
    check: 'rights',
    said: /may not read and write.*GRANT/,
  },
  {
    mistake: 'NATS at another port',
    make: async () => ({ NATS_URL: `nats://127.0.0.1:${await freePort()}` }),
    check: 'nats',
    said: /Correct NATS_URL/,
  },
  {
    mistake: 'a NATS without JetStream',
    async make(_cluster, mends) {
      const plain = await startNats({ jetStream: false });
      mends(() => plain.stop());
      return { NATS_URL: plain.url };
    },
    check: 'nats',
    said: /without JetStream.*Start NATS with JetStream/,
  },
  {
    mistake: 'one user of NATS for all apps',
    make: ({ nats }) => ({ NATS_URL: nats.url }),
    level: 'warn',
    check: "nats user's permissions",
    said: /may do what every app may do.*Give each app its own user/,
  },
  {
    mistake: 'another size of the stream than it was made with',
    make: () => ({ NATS_STREAM_MAX_BYTES: String(2 * STREAM_BYTES) }),
    check: 'usage stream',
    said: /max_bytes is \d+ and should be \d+.*To fix it/,
  },
  {
    mistake: "the control plane's HTTP port, not its gRPC port",
    make: ({ managementUrl }) => ({ CONTROL_PLANE_ADDRESS: new URL(managementUrl).host }),
    check: 'control plane',
    said: /the gRPC port \(8082 by default, not 8081\)/,
  },
  {
    mistake: 'a scheme in the address of the control plane',
    make: ({ controlPlaneAddress }) => ({ CONTROL_PLANE_ADDRESS: `http://${controlPlaneAddress}` }),
    check: 'control plane',
    said: /CONTROL_PLANE_ADDRESS/,
  },
  {
    mistake: 'another token than the control plane has',
    make: () => ({ CONTROL_PLANE_TOKEN: 'a token of another environment' }),
    check: 'control plane',
    said: /Set CONTROL_PLANE_TOKEN to the same value/,
  },
  {
    mistake: 'mutual TLS on one side only',
    async make() {
      const authority = await issue({ name: 'authority', isAuthority: true });
      const own = await issue({ name: 'data-plane', issuer: authority });
      return await tlsFiles(await newFolder(), 'data-plane', own, [authority.cert]);
    },
    check: 'control plane',
    said: /that it serves TLS and trusts the issuer/,
  },
  {
    mistake: 'one of the three files of TLS is not set',
    make: () => ({ CONTROL_TLS_CERTIFICATE_FILE: '/tls/tls.crt', CONTROL_TLS_KEY_FILE: '/tls/tls.key' }),
    check: 'certificates',
    said: /CONTROL_TLS_CA_FILE is missing/,
  },
  {
    mistake: 'a folder for the spool that can not be',
    make: () => ({ SPOOL_DIR: '/dev/null/spools/data-plane' }),
    check: 'disk of the spool',
    said: /Set SPOOL_DIR to a folder that the user of the data plane may write to/,
  },
  {
    mistake: 'a credential that refers to nothing',
    make: (made, mends) => connector(made, mends, { credential_ref: 'env:NO_SUCH_KEY' }),
    check: 'connector mistake-',
    said: /NO_SUCH_KEY.*Set its credential again/,
  },
  {
    mistake: 'the address of a vendor without its /v1',
    make: (made, mends) => connector(made, mends, { base_url: made.vendor.url.replace(/\/v1$/, '/v9') }),
    args: ['--live'],
    check: 'connector mistake-',
    said: /no list of models at this base_url.*Correct its base_url/,
  },
  {
    mistake: 'a clock that is off',
    make: () => ({}),
    now: ahead(300),
    check: "service's clock",
    said: /behind the local clock.*Synchronize the clocks/,
  },
];

const newFolder = () => mkdtemp(join(testRun().folder, 'mistakes-'));

/** What was found besides; NATS' and Postgres' clocks are off with the local one, and so on. */
const problems = ({ findings }: Diagnosis) =>
  findings.filter(({ level }) => level === 'warn' || level === 'fail');

describe('weighbridge doctor, of what people get wrong', () => {
  it('finds nothing wrong with what is right', async () => {
    await eventually(async () =>
      expect(problems(await diagnose(right)).filter(({ check }) => !MAY_WARN.has(check))).toEqual([]),
    );
  });

  it.each(MISTAKES)(
    'says what to do about it: $mistake',
    async ({ make, args, now, level = 'fail', check, said }) => {
      const mends: (() => Promise<unknown>)[] = [];
      try {
        const settings = { ...right, ...(await make(cluster, (mend) => mends.push(mend))) };
        const diagnosis = await diagnose(settings, { ...(args && { args }), ...(now && { now }) });
        const found = problems(diagnosis).filter((finding) => finding.check.startsWith(check));
        expect(found.map((finding) => finding.level)).toContain(level);
        expect(found.map(({ detail, advice }) => `${detail} ${advice}`).join('\n')).toMatch(said);
        expect(diagnosis.code).toBe(problems(diagnosis).some((one) => one.level === 'fail') ? 1 : 0);
        expect(problems(diagnosis).every(({ advice }) => (advice?.length ?? 0) > 20)).toBe(true);
        // Those are said to no one.
        expect(JSON.stringify(diagnosis.findings)).not.toMatch(/'secret'|token of another environment/);
      } finally {
        for (const mend of mends.reverse()) await mend();
      }
    },
  );
});

it('weighbridge doctor ends though what it asks accepts connections and never answers', async () => {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => sockets.push(socket.on('error', () => {})));
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const host = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const env = { NATS_URL: `nats://${host}`, DATABASE_URL: `postgresql://user:secret@${host}/weighbridge` };
  try {
    const { code, found } = await new Promise<{ code: unknown; found: Finding[] }>((resolve) => {
      execFile(process.execPath, [MAIN, 'doctor', '--json'], { env }, (error, out) =>
        resolve({ code: error?.code, found: JSON.parse(out) }),
      );
    });
    const failed = found.filter(({ level }) => level === 'fail');
    expect([code, failed.map(({ check }) => check)]).toEqual([1, ['database', 'nats']]);
    expect(failed[1]?.detail).toContain('no answer within 5 s');
  } finally {
    for (const socket of sockets) socket.destroy();
    silent.close();
  }
});

/** It depends on the machine that runs the tests. */
const MAY_WARN = new Set(['disk of the spool']);
